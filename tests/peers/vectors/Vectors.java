// Asks Kafka's Java client for what the tests compare with; one question per line on stdin, one answer per line on stdout.
//
//   partition <count> <key as hex>                      -> the default partitioner's choice
//   assign <assignor> <topic=count,...> <member ...>... -> member=topic:partition,... separated by blanks
//     member: id;topic,...;owned topic:partition,...;generation;user data as hex;group instance id ("-" for nothing)
//   subscription <version> <member>, assignment <version> <topic:partition,...> <user data> -> the encoded bytes as hex
import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.*;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.*;

public class Vectors {
    static final HexFormat HEX = HexFormat.of();

    static ByteBuffer bytes(String text) {
        return text.equals("-") ? null : ByteBuffer.wrap(HEX.parseHex(text));
    }

    static String hex(ByteBuffer buffer) {
        byte[] content = new byte[buffer.remaining()];
        buffer.get(content);
        return HEX.formatHex(content);
    }

    static List<TopicPartition> partitions(String text) {
        List<TopicPartition> found = new ArrayList<>();
        if (!text.equals("-"))
            for (String each : text.split(",")) {
                int colon = each.lastIndexOf(':');
                found.add(new TopicPartition(each.substring(0, colon), Integer.parseInt(each.substring(colon + 1))));
            }
        return found;
    }

    static Subscription subscription(String[] fields) {
        List<String> topics = fields[1].equals("-") ? List.of() : List.of(fields[1].split(","));
        Subscription made = new Subscription(
            topics, bytes(fields[4]), partitions(fields[2]), Integer.parseInt(fields[3]), Optional.empty());
        if (!fields[5].equals("-")) made.setGroupInstanceId(Optional.of(fields[5]));
        return made;
    }

    static String assign(String[] words) {
        AbstractPartitionAssignor assignor = switch (words[1]) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        Map<String, Integer> counts = new HashMap<>();
        for (String each : words[2].split(",")) {
            String[] sides = each.split("=");
            counts.put(sides[0], Integer.parseInt(sides[1]));
        }
        Map<String, Subscription> members = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            String[] fields = words[i].split(";");
            members.put(fields[0], subscription(fields));
        }
        return new TreeMap<>(assignor.assign(counts, members)).entrySet().stream()
            .map(e -> e.getKey() + "=" + e.getValue().stream().map(p -> p.topic() + ":" + p.partition()).collect(Collectors.joining(",")))
            .collect(Collectors.joining(" "));
    }

    static String answer(String[] words) {
        return switch (words[0]) {
            case "partition" ->
                Integer.toString(BuiltInPartitioner.partitionForKey(HEX.parseHex(words[2]), Integer.parseInt(words[1])));
            case "assign" -> assign(words);
            case "subscription" ->
                hex(ConsumerProtocol.serializeSubscription(subscription(words[2].split(";")), Short.parseShort(words[1])));
            case "assignment" ->
                hex(ConsumerProtocol.serializeAssignment(new Assignment(partitions(words[2]), bytes(words[3])), Short.parseShort(words[1])));
            default -> throw new IllegalArgumentException(words[0]);
        };
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        PrintStream answers = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)));
        for (String line; (line = questions.readLine()) != null; ) {
            String result;
            try {
                result = answer(line.split(" "));
            } catch (RuntimeException problem) {
                result = "failed: " + problem;
            }
            answers.println(result);
        }
        answers.flush();
    }
}
