// Plays stories of Connect rebalances with Kafka's own WorkerCoordinators and their assignors, without a broker.
//
// Standard input: a story a line, {"max_delay_ms", "mode", "rounds": [{"now_ms", "generation", "protocol", "config":
// {connector: tasks}, "offset", "behind": {worker: {"config", "offset"}}, "fresh": bool, "members": [[worker, member
// id], ...], "leader": worker, "reached": [worker, ...]}]}. A worker is a process; the first round that names it starts
// it. Who is `behind` joins with an older configuration; `fresh`: the leader has read the newest when it assigns.
// Standard output: for each story a list of rounds, {worker: {"error", "offset", "delay_ms", "assigned", "revoked",
// "held", "state_bytes", "assignment_bytes"}}; work is a list of [connector, task], task -1 is the connector itself;
// bytes, in hexadecimal, are what the worker said of itself and what it was given.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;

import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocolCompatibility;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.runtime.distributed.WorkerRebalanceListener;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;

public class KafkaConnect {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static class Clock implements Time {
        long now;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
            now += ms;
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static class Storage {
        ClusterConfigState state = ClusterConfigState.EMPTY;
        final ConfigBackingStore store = (ConfigBackingStore) Proxy.newProxyInstance(
            ConfigBackingStore.class.getClassLoader(),
            new Class<?>[] {ConfigBackingStore.class},
            (self, method, arguments) -> method.getName().equals("snapshot") ? state : null);
    }

    private static class Listener implements WorkerRebalanceListener {
        ExtendedAssignment held;

        public void onAssigned(ExtendedAssignment assignment, int generation) {
            held = assignment;
        }

        public void onRevoked(String leader, Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        }

        public void onPollTimeoutExpiry() {
        }
    }

    private static class Worker extends WorkerCoordinator {
        final Storage storage;
        final Listener listener;
        int generation = -1;

        Worker(Time time, ConnectProtocolCompatibility mode, int maxDelay, Storage storage, Listener listener) {
            super(
                new GroupRebalanceConfig(10_000, 60_000, 3_000, "connect", Optional.empty(), null, 100, 1_000),
                new LogContext(), null, new Metrics(), "connect", time, "url", storage.store, listener, mode, maxDelay);
            this.storage = storage;
            this.listener = listener;
        }

        @Override
        public int generationId() {
            return generation;
        }

        byte[] join(int next, String protocol, String id) {
            onJoinPrepare(null, generation, id);
            generation = next;
            return metadata().find(protocol).metadata();
        }

        Map<String, ByteBuffer> lead(String id, String protocol, List<JoinGroupResponseMember> members) {
            return onLeaderElected(id, protocol, members, false);
        }

        void take(String id, String protocol, ByteBuffer assignment) {
            onJoinComplete(generation, id, protocol, assignment);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            System.out.println(JSON.writeValueAsString(play(JSON.readTree(line))));
        }
    }

    private static ArrayNode play(JsonNode story) {
        Clock clock = new Clock();
        ConnectProtocolCompatibility mode = ConnectProtocolCompatibility.compatibility(story.get("mode").textValue());
        int maxDelay = story.get("max_delay_ms").intValue();
        Map<String, Worker> workers = new HashMap<>();
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode round : story.get("rounds")) {
            clock.now = round.get("now_ms").longValue();
            for (JsonNode member : round.get("members")) {
                workers.computeIfAbsent(
                    member.get(0).textValue(),
                    name -> new Worker(clock, mode, maxDelay, new Storage(), new Listener()));
            }
            answers.add(play(round, workers));
        }
        return answers;
    }

    private static ObjectNode play(JsonNode round, Map<String, Worker> workers) {
        int generation = round.get("generation").intValue();
        String protocol = round.get("protocol").textValue();
        Map<String, String> ids = new LinkedHashMap<>();
        Map<String, byte[]> states = new HashMap<>();
        List<JoinGroupResponseMember> joined = new ArrayList<>();
        for (JsonNode member : round.get("members")) {
            String name = member.get(0).textValue();
            String id = member.get(1).textValue();
            Worker worker = workers.get(name);
            ids.put(name, id);
            worker.storage.state = config(round.get("behind").has(name) ? round.get("behind").get(name) : round);
            byte[] metadata = worker.join(generation, protocol, id);
            states.put(name, metadata);
            joined.add(new JoinGroupResponseMember().setMemberId(id).setMetadata(metadata));
        }
        String leading = round.get("leader").textValue();
        if (round.get("fresh").booleanValue()) {
            workers.get(leading).storage.state = config(round);
        }
        Map<String, ByteBuffer> given = workers.get(leading).lead(ids.get(leading), protocol, joined);
        for (JsonNode name : round.get("reached")) {
            String id = ids.get(name.textValue());
            workers.get(name.textValue()).take(id, protocol, given.get(id).duplicate());
        }
        ObjectNode answers = JSON.createObjectNode();
        ids.forEach((name, id) -> {
            byte[] bytes = Utils.toArray(given.get(id));
            ExtendedAssignment one = IncrementalCooperativeConnectProtocol.deserializeAssignment(given.get(id));
            ObjectNode answer = answers.putObject(name);
            answer.put("error", one.error()).put("offset", one.offset()).put("delay_ms", one.delay());
            write(answer.putArray("assigned"), one.connectors(), one.tasks());
            write(answer.putArray("revoked"), one.revokedConnectors(), one.revokedTasks());
            answer.put("state_bytes", HexFormat.of().formatHex(states.get(name)));
            answer.put("assignment_bytes", HexFormat.of().formatHex(bytes));
            ExtendedAssignment held = workers.get(name).listener.held;
            if (held != null) {
                write(answer.putArray("held"), held.connectors(), held.tasks());
            }
        });
        return answers;
    }

    private static ClusterConfigState config(JsonNode from) {
        Map<String, Integer> taskCounts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> taskConfigs = new HashMap<>();
        JsonNode counts = from.get("config");
        for (Iterator<String> names = counts.fieldNames(); names.hasNext();) {
            String name = names.next();
            taskCounts.put(name, counts.get(name).intValue());
            configs.put(name, Map.of());
            for (int task = 0; task < counts.get(name).intValue(); task++) {
                taskConfigs.put(new ConnectorTaskId(name, task), Map.of());
            }
        }
        return new ClusterConfigState(
            from.get("offset").longValue(), null, taskCounts, configs, Map.of(), taskConfigs, Map.of(), Map.of(),
            Map.of(), Set.of(), Set.of());
    }

    private static void write(ArrayNode out, Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        for (String connector : connectors) {
            out.addArray().add(connector).add(-1);
        }
        for (ConnectorTaskId task : tasks) {
            out.addArray().add(task.connector()).add(task.task());
        }
    }
}
