import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** The consumer of 0.9 and later; what was renamed since is looked up. */
final class Consume {
    static final class Member extends KafkaConsumer<String, String> {
        Member(String group) {
            super(settings(group));
        }

        @SuppressWarnings("unchecked")
        ConsumerRecords<String, String> next() {
            try {
                return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(this, 200L);
            } catch (NoSuchMethodException since4) {
                return (ConsumerRecords<String, String>) call("poll", java.time.Duration.ofMillis(200));
            } catch (ReflectiveOperationException problem) {
                throw unwrapped(problem);
            }
        }

        Object call(String name, Object argument) {
            for (Method each : KafkaConsumer.class.getMethods()) {
                if (!each.getName().equals(name) || each.getParameterCount() != 1) continue;
                if (!each.getParameterTypes()[0].isInstance(argument)) continue;
                try {
                    return each.invoke(this, argument);
                } catch (ReflectiveOperationException problem) {
                    throw unwrapped(problem);
                }
            }
            throw new UnsupportedOperationException(name);
        }
    }

    private static RuntimeException unwrapped(Exception problem) {
        return problem.getCause() instanceof RuntimeException ? (RuntimeException) problem.getCause() : new RuntimeException(problem);
    }

    private static Properties settings(String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", Main.bootstrap);
        if (group != null) settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return settings;
    }

    private static List<String> take(Member member, int count) {
        List<String> values = new ArrayList<>();
        while (values.size() < count)
            for (ConsumerRecord<String, String> each : member.next()) values.add(each.value());
        return values;
    }

    static List<?> read(String[] words) {
        try (Member member = new Member(null)) {
            member.assign(Arrays.asList(new TopicPartition(words[1], 0), new TopicPartition(words[1], 1)));
            return take(member, Integer.parseInt(words[2]));
        }
    }

    static List<?> group(String[] words) {
        try (Member member = new Member(words[2])) {
            member.subscribe(Collections.singletonList(words[1]));
            List<String> values = take(member, Integer.parseInt(words[3]));
            member.commitSync();
            return values;
        }
    }

    static List<?> seek(String[] words) {
        try (Member member = new Member(null)) {
            TopicPartition partition = new TopicPartition(words[1], 0);
            member.assign(Collections.singletonList(partition));
            member.seek(partition, Long.parseLong(words[2]));
            return take(member, 1).subList(0, 1);
        }
    }

    static List<?> offsets(String[] words) {
        try (Member member = new Member(null)) {
            TopicPartition partition = new TopicPartition(words[1], 0);
            member.assign(Collections.singletonList(partition));
            List<Long> found = new ArrayList<>();
            for (String where : Arrays.asList("seekToBeginning", "seekToEnd")) {
                try {
                    member.call(where, new TopicPartition[] {partition});
                } catch (UnsupportedOperationException since010) {
                    member.call(where, Collections.singletonList(partition));
                }
                found.add(member.position(partition));
            }
            return found;
        }
    }

    static List<?> follow(String[] words) throws Exception {
        Member member = new Member(words[2]);
        CountDownLatch left = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.wakeup();
            try {
                left.await(5, TimeUnit.SECONDS);
            } catch (InterruptedException ignored) {
                return;
            }
        }));
        try {
            member.subscribe(Collections.singletonList(words[1]));
            while (true) {
                ConsumerRecords<String, String> records = member.next();
                for (ConsumerRecord<String, String> each : records) Main.tell(each.partition(), each.offset(), each.value());
                if (!records.isEmpty()) member.commitSync();
            }
        } catch (WakeupException end) {
            return null;
        } finally {
            member.close();
            left.countDown();
        }
    }
}
