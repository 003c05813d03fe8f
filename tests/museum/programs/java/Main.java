import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Collections;
import java.util.List;

/**
 * Takes steps from stdin, a line of words each, and answers each with a line of JSON; see tests/museum/contract.py.
 * Arguments: bootstrap servers, ZooKeeper's connect string, and the classes that know steps as static methods.
 */
public final class Main {
    static String bootstrap;
    static String zookeeper;
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true);

    private static String quoted(String text) {
        StringBuilder to = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') to.append('\\').append(each);
            else if (each < 0x20 || each > 0x7e) to.append(String.format("\\u%04x", (int) each));
            else to.append(each);
        }
        return to.append('"').toString();
    }

    /** For a step that ends only with its process: a record that it has seen. */
    static void tell(int partition, long offset, String value) {
        OUT.println("{\"partition\":" + partition + ",\"offset\":" + offset + ",\"value\":" + quoted(value) + "}");
    }

    private static String run(String[] classes, String[] words) {
        try {
            for (String name : classes) {
                try {
                    Object found = Class.forName(name).getDeclaredMethod(words[0], String[].class).invoke(null, (Object) words);
                    StringBuilder values = new StringBuilder();
                    for (Object each : found == null ? Collections.emptyList() : (List<?>) found)
                        values.append(values.length() == 0 ? "" : ",").append(quoted(String.valueOf(each)));
                    return "{\"ok\":true,\"values\":[" + values + "]}";
                } catch (NoSuchMethodException next) {
                    continue;
                }
            }
            return "{\"ok\":false,\"error\":\"no such step\"}";
        } catch (InvocationTargetException problem) {
            Throwable cause = problem.getCause();
            while (cause.getCause() != null) cause = cause.getCause();
            return "{\"ok\":false,\"error\":" + quoted(String.valueOf(cause)) + "}";
        } catch (Exception problem) {
            return "{\"ok\":false,\"error\":" + quoted(String.valueOf(problem)) + "}";
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        zookeeper = arguments[1];
        String[] classes = java.util.Arrays.copyOfRange(arguments, 2, arguments.length);
        System.setOut(System.err);
        BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
        for (String line = steps.readLine(); line != null; line = steps.readLine()) OUT.println(run(classes, line.split(" ")));
        System.exit(0);
    }
}
