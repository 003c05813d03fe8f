import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/** ZooKeeper's own shell, asked for one znode at a time. */
final class Shell {
    private static String run(String... command) throws Exception {
        List<String> whole = new ArrayList<>();
        whole.add(ProcessHandle.current().info().command().get());
        whole.addAll(List.of("-cp", System.getProperty("java.class.path"), "org.apache.zookeeper.ZooKeeperMain"));
        whole.addAll(List.of("-server", Main.zookeeper));
        whole.addAll(List.of(command));
        Process process = new ProcessBuilder(whole).redirectErrorStream(true).start();
        String last = "";
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine())
                if (line.startsWith("[") || line.matches("\\d+")) last = line;
        }
        process.waitFor();
        return last;
    }

    static List<?> describe(String[] words) throws Exception {
        return List.of(run("ls", "/brokers/topics/" + words[1] + "/partitions").split(",").length);
    }

    static List<?> znode_offsets(String[] words) throws Exception {
        List<String> found = new ArrayList<>();
        for (String partition : new String[] {"0", "1"})
            found.add(run("get", "/consumers/" + words[2] + "/offsets/" + words[1] + "/" + partition));
        return found;
    }
}
