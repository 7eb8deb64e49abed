import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.share.generated.*;

/** Prints records, one a line: key and value in hex, and both as Kafka's converters have them. */
public final class ShareState {
    private static final Random DICE = new Random(1);

    public static void main(String[] arguments) {
        String[] groups = {"g", "payments", "größe 日本", "x".repeat(255)};
        long[] offsets = {-1, 0, 1, 4_200, Long.MAX_VALUE};
        int[] counts = {-1, 0, 1, 250, Integer.MAX_VALUE};
        for (int at = 0; at < 20; at++) {
            String group = groups[at % groups.length];
            Uuid topic = new Uuid(DICE.nextLong(), DICE.nextLong());
            int partition = at % 3 == 0 ? Integer.MAX_VALUE : at;
            long start = offsets[at % offsets.length];
            int count = counts[DICE.nextInt(counts.length)];
            int batches = at % 4;
            if (at % 2 == 0) {
                List<ShareSnapshotValue.StateBatch> rows = new ArrayList<>();
                for (int row = 0; row < batches; row++) {
                    rows.add(new ShareSnapshotValue.StateBatch().setFirstOffset(DICE.nextLong() >>> 1)
                        .setLastOffset(DICE.nextLong() >>> 1).setDeliveryState((byte) (2 * row))
                        .setDeliveryCount((short) DICE.nextInt(100)));
                }
                ShareSnapshotKey key = new ShareSnapshotKey().setGroupId(group).setTopicId(topic).setPartition(partition);
                ShareSnapshotValue value = new ShareSnapshotValue().setSnapshotEpoch(at).setStateEpoch(at + 1)
                    .setLeaderEpoch(at - 1).setStartOffset(start).setDeliveryCompleteCount(count)
                    .setCreateTimestamp(DICE.nextLong() >>> 1).setWriteTimestamp(DICE.nextLong() >>> 1).setStateBatches(rows);
                print(key, key.apiKey(), value, ShareSnapshotKeyJsonConverter.write(key, (short) 0).toString(),
                    ShareSnapshotValueJsonConverter.write(value, (short) 0).toString());
            } else {
                List<ShareUpdateValue.StateBatch> rows = new ArrayList<>();
                for (int row = 0; row < batches; row++) {
                    rows.add(new ShareUpdateValue.StateBatch().setFirstOffset(DICE.nextLong() >>> 1)
                        .setLastOffset(DICE.nextLong() >>> 1).setDeliveryState((byte) (2 * row))
                        .setDeliveryCount((short) DICE.nextInt(100)));
                }
                ShareUpdateKey key = new ShareUpdateKey().setGroupId(group).setTopicId(topic).setPartition(partition);
                ShareUpdateValue value = new ShareUpdateValue().setSnapshotEpoch(at).setLeaderEpoch(at - 2)
                    .setStartOffset(start).setDeliveryCompleteCount(count).setStateBatches(rows);
                print(key, key.apiKey(), value, ShareUpdateKeyJsonConverter.write(key, (short) 0).toString(),
                    ShareUpdateValueJsonConverter.write(value, (short) 0).toString());
            }
        }
    }

    private static void print(ApiMessage key, short type, ApiMessage value, String keyJson, String valueJson) {
        byte[] body = MessageUtil.toCoordinatorTypePrefixedBytes(key);
        if (ByteBuffer.wrap(body).getShort() != type) {
            throw new IllegalStateException("a key starts with its type");
        }
        HexFormat hex = HexFormat.of();
        System.out.println("{\"key\":\"" + hex.formatHex(body) + "\",\"value\":\""
            + hex.formatHex(MessageUtil.toVersionPrefixedBytes((short) 0, value)) + "\",\"expect\":{\"key\":{\"type\":" + type
            + ",\"data\":" + keyJson + "},\"value\":{\"version\":0,\"data\":" + valueJson + "}}}");
    }
}
