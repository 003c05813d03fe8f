import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Produces with the client on the class path: bootstrap servers, then for each topic `topic codec records`; timestamps where it knows them. */
public class OldRecords {
    private static final long FIRST_TIMESTAMP = 1480000000000L;

    private static ProducerRecord<String, String> record(String topic, int number, String key, String value) throws Exception {
        try {
            Constructor<ProducerRecord> withTime =
                ProducerRecord.class.getConstructor(String.class, Integer.class, Long.class, Object.class, Object.class);
            return withTime.newInstance(topic, 0, FIRST_TIMESTAMP + 1000L * number, key, value);
        } catch (NoSuchMethodException older) {
            return new ProducerRecord<>(topic, 0, key, value);
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int at = 1; at < arguments.length; at += 3) {
            String topic = arguments[at];
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("acks", "all");
            settings.put("linger.ms", "1000");
            settings.put("compression.type", arguments[at + 1]);
            try (KafkaProducer<String, String> producer =
                     new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                int records = Integer.parseInt(arguments[at + 2]);
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int number = 0; number < records; number++) {
                    // Eight keys; the last value of the last one is null.
                    String value = number == records - 1 ? null : topic + "-" + number;
                    sent.add(producer.send(record(topic, number, "key-" + number % 8, value)));
                    if (number % 10 == 9) { // a message set of its own
                        producer.flush();
                    }
                }
                for (Future<RecordMetadata> each : sent) {
                    each.get();
                }
            }
        }
    }
}
