import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * One member of a consumer group, by Kafka's own Java client, in a process of its own: Member TOPICS WORK_S KEY=VALUE….
 * It takes commands as JSON lines on standard input and says what happens to it as JSON lines on standard output, as
 * client.py does.
 */
public final class Member {
  private static void say(String what) {
    System.out.println("{\"t\": " + System.currentTimeMillis() + ", \"what\": \"" + what + "\"}");
  }

  public static void main(String[] arguments) throws Exception {
    Properties conf = new Properties();
    for (String each : Arrays.asList(arguments).subList(2, arguments.length)) {
      String[] pair = each.split("=", 2);
      conf.put(pair[0], pair[1]);
    }
    long workMs = Math.round(Double.parseDouble(arguments[1]) * 1000);
    AtomicBoolean open = new AtomicBoolean(true);
    LinkedBlockingQueue<Double> stalls = new LinkedBlockingQueue<>();
    Thread commands = new Thread(() -> obey(open, stalls));
    commands.setDaemon(true);
    commands.start();
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(conf, bytes, bytes)) {
      consumer.subscribe(Arrays.asList(arguments[0].split(",")));
      while (open.get()) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        Double stall = stalls.poll();
        if (stall != null) {
          say("stalls");
          Thread.sleep(Math.round(stall * 1000));
          say("stalled");
        } else if (workMs > 0) {
          Thread.sleep(workMs * Math.min(records.count(), 10));
        }
      }
      say("close");
    }
    say("closed");
  }

  private static void obey(AtomicBoolean open, LinkedBlockingQueue<Double> stalls) {
    try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        if (line.contains("\"close\"")) {
          open.set(false);
        } else {
          stalls.add(Double.parseDouble(line.replaceAll("[^0-9.]", "")));
        }
      }
    } catch (Exception failed) {
      failed.printStackTrace();
    }
    Runtime.getRuntime().halt(3); // whoever started us is gone
  }
}
