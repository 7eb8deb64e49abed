import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Answers problems, one JSON a line, with Kafka's own assignors: {"assignment": …} or {"error": …}, one a line. */
public class KafkaAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode problem = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                boolean server = problem.path("server").asBoolean();
                answer.set("assignment", JSON.valueToTree(server ? byServer(problem) : byClient(problem)));
            } catch (RuntimeException error) {
                answer.put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static Map<String, List<Object[]>> byClient(JsonNode problem) {
        ConsumerPartitionAssignor assignor = newAssignor(problem.get("assignor").asText());
        // The consumer that leads a group collects subscriptions in a map of this kind.
        Map<String, Subscription> subscriptions = new HashMap<>();
        problem.get("members").fields().forEachRemaining(it -> subscriptions.put(it.getKey(), subscription(it.getValue(), assignor)));
        Map<String, List<Object[]>> answer = new TreeMap<>();
        assignor.assign(cluster(problem), new GroupSubscription(subscriptions)).groupAssignment().forEach((id, it) -> {
            List<Object[]> slots = new ArrayList<>();
            it.partitions().forEach(slot -> slots.add(new Object[] {slot.topic(), slot.partition()}));
            answer.put(id, slots);
        });
        return answer;
    }

    private static ConsumerPartitionAssignor newAssignor(String name) {
        for (ConsumerPartitionAssignor it : List.of(
                new RangeAssignor(), new RoundRobinAssignor(), new StickyAssignor(), new CooperativeStickyAssignor())) {
            if (it.name().equals(name)) {
                return it;
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static Subscription subscription(JsonNode member, ConsumerPartitionAssignor assignor) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(it -> topics.add(it.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(it -> owned.add(new TopicPartition(it.get(0).asText(), it.get(1).asInt())));
        int generation = member.path("generation").isInt() ? member.get("generation").asInt() : -1;
        Subscription out;
        if (assignor instanceof StickyAssignor) {
            // An eager member has given up everything, and says in the assignor's own data what it was.
            StickyAssignor theirs = new StickyAssignor();
            theirs.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "", Optional.empty()));
            out = new Subscription(topics, theirs.subscriptionUserData(Set.of()), List.of(), generation, Optional.empty());
        } else {
            out = new Subscription(topics, null, owned, generation, Optional.empty());
        }
        out.setGroupInstanceId(Optional.ofNullable(member.path("instance_id").textValue()));
        return out;
    }

    private static Cluster cluster(JsonNode problem) {
        List<PartitionInfo> partitions = new ArrayList<>();
        problem.get("partitions").fields().forEachRemaining(it -> {
            for (int number = 0; number < it.getValue().asInt(); number++) {
                partitions.add(new PartitionInfo(it.getKey(), number, null, new Node[0], new Node[0]));
            }
        });
        return new Cluster("c", List.of(), partitions, Set.of(), Set.of());
    }

    private static Map<String, List<Object[]>> byServer(JsonNode problem) {
        // Ids that hash maps and comparators put in the order of names.
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Set<String> sorted = new java.util.TreeSet<>();
        problem.get("partitions").fieldNames().forEachRemaining(sorted::add);
        for (String topic : sorted) {
            Uuid id = new Uuid(0, ids.size() + 1);
            ids.put(topic, id);
            names.put(id, topic);
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<String>> subscriptions = new HashSet<>();
        problem.get("members").fields().forEachRemaining(it -> {
            Set<String> topics = new HashSet<>();
            Set<Uuid> wanted = new HashSet<>();
            it.getValue().get("topics").forEach(topic -> {
                topics.add(topic.asText());
                if (ids.containsKey(topic.asText())) {
                    wanted.add(ids.get(topic.asText()));
                }
            });
            subscriptions.add(topics);
            Map<Uuid, List<Integer>> owned = new HashMap<>();
            it.getValue().get("owned").forEach(slot -> {
                Uuid id = ids.get(slot.get(0).asText());
                owned.computeIfAbsent(id, key -> new ArrayList<>()).add(slot.get(1).asInt());
                owners.computeIfAbsent(id, key -> new HashMap<>()).put(slot.get(1).asInt(), it.getKey());
            });
            Map<Uuid, Set<Integer>> held = new HashMap<>();
            owned.forEach((id, numbers) -> {
                Collections.sort(numbers);
                held.put(id, new HashSet<>(numbers));
            });
            members.put(it.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                Optional.ofNullable(it.getValue().path("instance_id").textValue()),
                wanted,
                new org.apache.kafka.coordinator.group.modern.Assignment(Collections.unmodifiableMap(held))));
        });
        SubscriptionType type = subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        GroupSpec spec = new GroupSpecImpl(members, type, owners);
        PartitionAssignor assignor = problem.get("assignor").asText().equals("uniform")
            ? new UniformAssignor() : new org.apache.kafka.coordinator.group.assignor.RangeAssignor();
        GroupAssignment found = assignor.assign(spec, new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return names.containsKey(id) ? problem.get("partitions").get(names.get(id)).asInt() : -1;
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        });
        Map<String, List<Object[]>> answer = new TreeMap<>();
        for (String id : members.keySet()) {
            List<Object[]> slots = new ArrayList<>();
            MemberAssignment mine = found.members().get(id);
            if (mine != null) {
                mine.partitions().forEach((topic, numbers) ->
                    numbers.forEach(number -> slots.add(new Object[] {names.get(topic), number})));
            }
            answer.put(id, slots);
        }
        return answer;
    }
}
