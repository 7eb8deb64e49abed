"""What `kshadow run` needs, tried one after the other: what works, what does not, and how to put it right.

    for check in examine(DoctorRequest(conf)):
        check.outcome, check.found, check.fix

Tries instead of asking: whom a right is missing may seldom list rights. Nothing is written to the cluster, and no
question is asked that would make a broker make a topic.
"""

from agent.tools.doctor.checks import Check, CheckOutcome, DoctorRequest
from agent.tools.doctor.examine import examine

__all__ = ["Check", "CheckOutcome", "DoctorRequest", "examine"]
