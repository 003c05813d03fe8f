import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;

/** ZooKeeper's own shell, with commands at its stdin. */
final class Shell {
    /** What it answers: lists, and numbers. */
    private static List<String> run(List<String> commands) throws Exception {
        List<String> whole = new ArrayList<>();
        whole.add(ProcessHandle.current().info().command().get());
        whole.addAll(List.of("-cp", System.getProperty("java.class.path"), "org.apache.zookeeper.ZooKeeperMain"));
        whole.addAll(List.of("-server", Main.zookeeper));
        Process process = new ProcessBuilder(whole).redirectErrorStream(true).start();
        process.getOutputStream().write((String.join("\n", commands) + "\nquit\n").getBytes());
        process.getOutputStream().close();
        List<String> found = new ArrayList<>();
        try (Scanner lines = new Scanner(process.getInputStream())) {
            while (lines.hasNextLine()) {
                String line = lines.nextLine();
                if (line.matches("\\[[0-9, ]+\\]|\\d+")) found.add(line);
            }
        }
        process.waitFor();
        return found;
    }

    static List<?> describe(String[] words) throws Exception {
        String partitions = run(List.of("ls /brokers/topics/" + words[1] + "/partitions")).get(0);
        return List.of(partitions.split(",").length);
    }

    static List<?> znode_offsets(String[] words) throws Exception {
        String where = "get /consumers/" + words[2] + "/offsets/" + words[1] + "/";
        return run(List.of(where + 0, where + 1));
    }
}
