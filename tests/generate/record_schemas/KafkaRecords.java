import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;

/** A record's fields a line, as JSON; answers with the bytes that Kafka's classes write, and what they read from them. */
public class KafkaRecords {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        var output = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode asked) {
        short type = (short) asked.get("key").get("type").asInt();
        var record = CoordinatorRecordType.fromId(type);
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(asked.get("key").get("data"), type);
        // A key starts with its type, and has one version.
        ByteBuffer keyBytes = MessageUtil.toCoordinatorTypePrefixedByteBuffer(key);
        var answer = MAPPER.createObjectNode();
        answer.put("key", hex(keyBytes));
        answer.putNull("value");
        answer.put("name", record.name());
        var expect = answer.putObject("expect");
        keyBytes.position(Short.BYTES);
        ApiMessage keyRead = record.newRecordKey();
        keyRead.read(new ByteBufferAccessor(keyBytes), (short) 0);
        var keyForm = expect.putObject("key").put("type", type);
        keyForm.set("data", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(keyRead));
        expect.putNull("value");
        JsonNode value = asked.get("value");
        if (!value.isNull()) {
            short version = (short) value.get("version").asInt();
            ApiMessage message =
                CoordinatorRecordJsonConverters.readRecordValueFromJson(value.get("data"), type, version);
            ByteBuffer bytes = MessageUtil.toVersionPrefixedByteBuffer(version, message);
            answer.put("value", hex(bytes));
            bytes.position(Short.BYTES);
            ApiMessage read = record.newRecordValue();
            read.read(new ByteBufferAccessor(bytes), version);
            var valueForm = expect.putObject("value").put("version", version);
            valueForm.set("data", CoordinatorRecordJsonConverters.writeRecordValueAsJson(read, version));
        }
        return answer;
    }

    private static String hex(ByteBuffer buffer) {
        return HexFormat.of().formatHex(buffer.array(), buffer.arrayOffset(), buffer.arrayOffset() + buffer.limit());
    }
}
