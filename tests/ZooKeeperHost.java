import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.ServerConfig;
import org.apache.zookeeper.server.ZooKeeperServerMain;
import org.apache.zookeeper.util.ServiceUtils;

/**
 * Runs lone ZooKeeper servers in one Java machine, so that those of many clusters cost the start of one.
 *
 * A line on standard input is `start NUMBER SETTINGS LOG` (tabs between; the paths of a zoo.cfg and of the file to which its server logs)
 * or `stop NUMBER`. A line on standard output is `NUMBER STATUS`: that server has ended, as a process with this status. All ends with the
 * standard input.
 */
public class ZooKeeperHost {
    private static final int PAUSE_MS = 5;
    /** Where a server logs to: inherited by each thread that it starts. */
    private static final InheritableThreadLocal<OutputStream> LOG = new InheritableThreadLocal<>();
    private static final Map<String, Server> SERVERS = new ConcurrentHashMap<>();

    /** Writes to the log of the server whose thread it is; the threads of none write nowhere. */
    private static final class LogOfTheServer extends OutputStream {
        @Override
        public void write(int value) throws IOException {
            if (LOG.get() != null) LOG.get().write(value);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            if (LOG.get() != null) LOG.get().write(bytes, offset, length);
        }
    }

    private static final class Server extends Thread {
        private final ZooKeeperServerMain server = new ZooKeeperServerMain();
        private final String number;
        private final String settings;
        private final String log;
        private final PrintStream ends;

        Server(String number, String settings, String log, PrintStream ends) {
            this.number = number;
            this.settings = settings;
            this.log = log;
            this.ends = ends;
        }

        @Override
        public void run() {
            int status = 0;
            // Not closed: threads that the server leaves behind may still have a word.
            try {
                LOG.set(new FileOutputStream(log, true));
                ServerConfig config = new ServerConfig();
                config.parse(settings);
                server.runFromConfig(config);
            } catch (Throwable thrown) {
                thrown.printStackTrace();
                status = 1;
            }
            SERVERS.remove(number);
            ends.println(number + " " + status);
        }

        /** One that still starts does not hear it, so it is said again. */
        void end() {
            Thread ending = new Thread(() -> {
                while (isAlive()) {
                    server.close();
                    try {
                        join(PAUSE_MS);
                    } catch (InterruptedException ignored) {
                        return;
                    }
                }
            });
            ending.setDaemon(true);
            ending.start();
        }
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream ends = System.out;
        // The library that logs keeps the streams that it finds at its first use.
        System.setOut(new PrintStream(new LogOfTheServer(), true, "UTF-8"));
        System.setErr(System.out);
        ServiceUtils.setSystemExitProcedure(status -> System.err.println("asked to exit with status " + status));
        String line;
        while ((line = requests.readLine()) != null) {
            String[] parts = line.split("\t");
            if (parts[0].equals("start")) {
                Server server = new Server(parts[1], parts[2], parts[3], ends);
                server.setDaemon(true);
                SERVERS.put(parts[1], server);
                server.start();
            } else {
                Server server = SERVERS.get(parts[1]);
                if (server != null) server.end();
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
