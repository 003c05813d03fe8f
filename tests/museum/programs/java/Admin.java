import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;

/** The admin client of 0.11 and later. */
final class Admin {
    private static AdminClient client() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", Main.bootstrap);
        return AdminClient.create(settings);
    }

    static List<?> create(String[] words) throws Exception {
        try (AdminClient client = client()) {
            client.createTopics(Collections.singletonList(new NewTopic(words[1], 3, (short) 1))).all().get();
        }
        return null;
    }

    static List<?> delete(String[] words) throws Exception {
        try (AdminClient client = client()) {
            client.deleteTopics(Collections.singletonList(words[1])).all().get();
        }
        return null;
    }
}
