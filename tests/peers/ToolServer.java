import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
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
import java.util.function.Function;
import org.apache.kafka.common.utils.Exit;
import org.apache.zookeeper.util.ServiceUtils;

/**
 * Runs Apache Kafka's command-line tools one after the other in one Java machine, so that hundreds of calls cost the start of one.
 *
 * A request on standard input is: the number of strings, then each as length and UTF-8 bytes; the first is the main class, the second
 * the milliseconds to wait, the third what the tool reads, the others its arguments. The answer on standard output is the exit
 * status (-1: it did not end in time), then what it wrote to its output and to its errors, each as length and bytes. A tool that
 * calls exit is left where it is, its thread asleep for ever: an exception would pass through the tool's own handlers. The threads that
 * it leaves behind, such as those of a client that it did not close, may go on to log and to exit: that stays with the call that started
 * them and never reaches a later one.
 */
public class ToolServer {
    /** One run of a tool: inherited by each thread that it starts. */
    private static final class Call {
        final ByteArrayOutputStream output = new ByteArrayOutputStream();
        final ByteArrayOutputStream errors = new ByteArrayOutputStream();
        final InputStream input;
        final List<Runnable> hooks = new CopyOnWriteArrayList<>();
        final CompletableFuture<Integer> ended = new CompletableFuture<>();

        Call(String input) {
            this.input = new ByteArrayInputStream(input.getBytes(StandardCharsets.ISO_8859_1));
        }

        void end(int status) {
            for (Runnable hook : hooks) hook.run();
            ended.complete(status);
        }
    }

    private static final InheritableThreadLocal<Call> CALL = new InheritableThreadLocal<>();

    /** Writes to what the call of the present thread has for it; threads of no call write nowhere. */
    private static final class CallOutput extends OutputStream {
        private final Function<Call, OutputStream> choice;

        CallOutput(Function<Call, OutputStream> choice) {
            this.choice = choice;
        }

        @Override
        public void write(int value) throws IOException {
            if (CALL.get() != null) choice.apply(CALL.get()).write(value);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            if (CALL.get() != null) choice.apply(CALL.get()).write(bytes, offset, length);
        }
    }

    private static final class CallInput extends InputStream {
        @Override
        public int read() throws IOException {
            return CALL.get() == null ? -1 : CALL.get().input.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            return CALL.get() == null ? -1 : CALL.get().input.read(bytes, offset, length);
        }
    }

    private static String readString(DataInputStream in) throws IOException {
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

    /** A tool of our own: sets a property of the system for those that come after it. */
    public static final class Property {
        public static void main(String[] arguments) {
            System.setProperty(arguments[0], arguments[1]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        // Scala and log4j keep the streams that they find at their first use, so they are set once.
        System.setOut(new PrintStream(new CallOutput(call -> call.output), true, "UTF-8"));
        System.setErr(new PrintStream(new CallOutput(call -> call.errors), true, "UTF-8"));
        System.setIn(new CallInput());
        Exit.Procedure leave = (status, message) -> {
            if (CALL.get() != null) CALL.get().end(status);
            park();
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        Exit.setShutdownHookAdder((name, hook) -> {
            if (CALL.get() != null) CALL.get().hooks.add(hook);
        });
        ServiceUtils.setSystemExitProcedure(status -> leave.execute(status, null));

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
            Call call = new Call(request.get(2));
            int status = run(call, request.get(0), Long.parseLong(request.get(1)), request.subList(3, count));
            answers.writeInt(status);
            for (byte[] part : List.of(call.output.toByteArray(), call.errors.toByteArray())) {
                answers.writeInt(part.length);
                answers.write(part);
            }
            answers.flush();
        }
    }

    private static int run(Call call, String mainClass, long timeoutMs, List<String> arguments) throws Exception {
        Method main = Class.forName(mainClass).getMethod("main", String[].class);
        Thread thread = new Thread(() -> {
            CALL.set(call);
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
            System.out.flush();
            System.err.flush();
            call.end(status);
        }, "main");
        thread.setDaemon(true);
        thread.start();
        try {
            return call.ended.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException late) {
            return -1;
        }
    }
}
