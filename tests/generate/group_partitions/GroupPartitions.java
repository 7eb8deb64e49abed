import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.common.hash.Hashing;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.jpountz.xxhash.XXHash64;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.kafka.common.utils.Utils;

/** Reads one name a line as a JSON string; answers its partitions for each count that is an argument. */
public final class GroupPartitions {
    public static void main(String[] counts) throws Exception {
        ObjectMapper json = new ObjectMapper();
        XXHash64 reference = XXHashFactory.nativeInstance().hash64();
        XXHash64 other = XXHashFactory.safeInstance().hash64();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String name = json.readValue(line, String.class);
            byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
            long hash = reference.hash(bytes, 0, bytes.length, 0);
            if (hash != other.hash(bytes, 0, bytes.length, 0)) {
                throw new IllegalStateException("two implementations of xxHash64 differ: " + line);
            }
            List<Integer> kafka = new ArrayList<>();
            List<Integer> redpanda = new ArrayList<>();
            for (String text : counts) {
                int count = Integer.parseInt(text);
                kafka.add(Utils.abs(name.hashCode()) % count);
                redpanda.add(Hashing.consistentHash(hash, count));
            }
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("xxhash64", Long.toUnsignedString(hash));
            answer.put("kafka", kafka);
            answer.put("redpanda", redpanda);
            System.out.println(json.writeValueAsString(answer));
        }
    }
}
