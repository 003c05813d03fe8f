import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/** The consumer that owns partitions and keeps its offsets in ZooKeeper: 0.8 to 1.1. */
final class ZooKeeperConsumer {
    private static ConsumerConnector connect(String group, String... more) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", Main.zookeeper);
        settings.put("group.id", group);
        settings.put("auto.commit.enable", "false");
        settings.put("auto.offset.reset", "smallest");
        settings.put("zookeeper.session.timeout.ms", "6000");
        settings.put("rebalance.backoff.ms", "1000");
        settings.put("rebalance.max.retries", "80");
        settings.put("refresh.leader.backoff.ms", "100");
        for (int each = 0; each < more.length; each += 2) settings.put(more[each], more[each + 1]);
        return Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
    }

    private static ConsumerIterator<byte[], byte[]> stream(ConsumerConnector connector, String topic) {
        return connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0).iterator();
    }

    private static List<String> take(ConsumerConnector connector, String topic, int count) {
        try {
            List<String> values = new ArrayList<>();
            ConsumerIterator<byte[], byte[]> records = stream(connector, topic);
            while (values.size() < count) values.add(new String(records.next().message()));
            connector.commitOffsets();
            return values;
        } finally {
            connector.shutdown();
        }
    }

    static List<?> read(String[] words) {
        return take(connect(UUID.randomUUID().toString()), words[1], Integer.parseInt(words[2]));
    }

    static List<?> group(String[] words) {
        return take(connect(words[2]), words[1], Integer.parseInt(words[3]));
    }

    /** A group whose offsets lie in the brokers, and in ZooKeeper too. */
    static List<?> dual(String[] words) {
        String[] more = {"offsets.storage", "kafka", "dual.commit.enabled", "true"};
        return take(connect(words[2], more), words[1], Integer.parseInt(words[3]));
    }

    static List<?> follow(String[] words) {
        ConsumerConnector connector = connect(words[2], "consumer.timeout.ms", "200");
        Runtime.getRuntime().addShutdownHook(new Thread(connector::shutdown));
        ConsumerIterator<byte[], byte[]> records = stream(connector, words[1]);
        while (true) {
            try {
                records.hasNext();
            } catch (ConsumerTimeoutException nothing) {
                continue;
            }
            MessageAndMetadata<byte[], byte[]> each = records.next();
            Main.tell(each.partition(), each.offset(), new String(each.message()));
            connector.commitOffsets();
        }
    }
}
