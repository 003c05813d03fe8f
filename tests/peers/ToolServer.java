import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.Exit;
import org.apache.zookeeper.util.ServiceUtils;

/**
 * Runs Apache Kafka's command-line tools one after the other in one Java machine, so that hundreds of calls cost the start of one.
 *
 * A request on standard input is: the number of strings, then each as length and UTF-8 bytes; the first is the main class, the second
 * the milliseconds to wait, the third what the tool reads, the others its arguments. The answer on standard output is the exit
 * status (-1: it did not end in time), then what it wrote to its output and to its errors, each as length and bytes. A tool that
 * calls exit is left where it is, its thread asleep for ever: an exception would pass through the tool's own handlers.
 */
public class ToolServer {
    private static final class Switch extends OutputStream {
        volatile OutputStream target;

        Switch(OutputStream target) {
            this.target = target;
        }

        @Override
        public void write(int value) throws java.io.IOException {
            target.write(value);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws java.io.IOException {
            target.write(bytes, offset, length);
        }
    }

    private static final class SwitchedInput extends InputStream {
        volatile InputStream source = new ByteArrayInputStream(new byte[0]);

        @Override
        public int read() throws java.io.IOException {
            return source.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws java.io.IOException {
            return source.read(bytes, offset, length);
        }
    }

    private static String readString(DataInputStream in) throws java.io.IOException {
        byte[] bytes = new byte[in.readInt()];
        in.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static void park() {
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ignored) {
                // asleep again
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Switch out = new Switch(OutputStream.nullOutputStream());
        Switch err = new Switch(OutputStream.nullOutputStream());
        SwitchedInput in = new SwitchedInput();
        // Scala keeps the streams that it finds at its first use, so they are set once and switched behind its back.
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        System.setIn(in);

        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (java.io.EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            List<String> request = new ArrayList<>();
            for (int i = 0; i < count; i++) request.add(readString(requests));
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            out.target = output;
            err.target = errors;
            in.source = new ByteArrayInputStream(request.get(2).getBytes(StandardCharsets.ISO_8859_1));
            int status = run(request.get(0), Long.parseLong(request.get(1)), request.subList(3, count));
            System.out.flush();
            System.err.flush();
            out.target = OutputStream.nullOutputStream();
            err.target = OutputStream.nullOutputStream();
            answers.writeInt(status);
            for (byte[] part : List.of(output.toByteArray(), errors.toByteArray())) {
                answers.writeInt(part.length);
                answers.write(part);
            }
            answers.flush();
        }
    }

    private static int run(String mainClass, long timeoutMs, List<String> arguments) throws Exception {
        CompletableFuture<Integer> ended = new CompletableFuture<>();
        List<Runnable> hooks = new CopyOnWriteArrayList<>();
        Exit.Procedure leave = (status, message) -> {
            for (Runnable hook : hooks) hook.run();
            ended.complete(status);
            park();
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        ServiceUtils.setSystemExitProcedure(status -> leave.execute(status, null));
        Method main = Class.forName(mainClass).getMethod("main", String[].class);
        Thread thread = new Thread(() -> {
            int status = 0;
            try {
                main.invoke(null, (Object) arguments.toArray(new String[0]));
            } catch (InvocationTargetException thrown) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                status = 1;
            } catch (Throwable thrown) {
                thrown.printStackTrace();
                status = 1;
            }
            for (Runnable hook : hooks) hook.run();
            ended.complete(status);
        }, "main");
        thread.setDaemon(true);
        thread.start();
        try {
            return ended.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException late) {
            return -1;
        }
    }
}
