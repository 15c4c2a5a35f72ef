// A plugin on grpc-java with Netty, and a client of one:
//
//     Plugin serve SOCKET CASE
//     Plugin call SOCKET CASE
//
// Messages are written by hand, so that no generated code is needed. On its standard input, `change`
// breaks a device and `stop` ends the plugin in order; at the end of the input it ends at once.

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import io.grpc.*;
import io.grpc.netty.shaded.io.grpc.netty.*;
import io.grpc.netty.shaded.io.netty.channel.epoll.*;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.*;
import java.io.*;
import java.nio.file.Path;
import java.util.*;

public final class Plugin {
	private static final String REGISTRATION = "pluginregistration.Registration";
	private static final String DEVICES = "v1beta1.DevicePlugin";
	private static final String HEALTH = "v1alpha1.DRAResourceHealth";

	private final String name;
	private String kind = "DevicePlugin";
	private String plugin = "example.com/peer";
	private List<String> versions = List.of("v1beta1");
	private int count = 2;
	private int asked;
	private boolean isChanged;
	private final List<Runnable> changed = new ArrayList<>();
	private final List<Runnable> stopped = new ArrayList<>();

	public static void main(String[] words) throws Exception {
		if (words[0].equals("serve")) {
			new Plugin(words[2]).serve(words[1]);
		} else {
			call(words[1]);
		}
		System.exit(0);
	}

	private Plugin(String name) {
		this.name = name;
		switch (name) {
			case "csi" -> {
				kind = "CSIPlugin";
				plugin = "csi.example.com";
				versions = List.of("1.0.0");
			}
			case "dra" -> {
				kind = "DRAPlugin";
				plugin = "dra.example.com";
				versions = List.of("v1.DRAPlugin", "v1alpha1.DRAResourceHealth");
			}
			case "many", "windows-small", "windows-large" -> count = 10000;
			default -> { }
		}
	}

	private void serve(String path) throws Exception {
		var group = new EpollEventLoopGroup(2);
		var builder = NettyServerBuilder.forAddress(new DomainSocketAddress(path))
			.channelType(EpollServerDomainSocketChannel.class)
			.bossEventLoopGroup(group)
			.workerEventLoopGroup(group);
		configure(builder);
		var registration = ServerServiceDefinition.builder(REGISTRATION);
		unary(registration, REGISTRATION, "GetInfo");
		unary(registration, REGISTRATION, "NotifyRegistrationStatus");
		var identity = ServerServiceDefinition.builder("csi.v1.Identity");
		unary(identity, "csi.v1.Identity", "Probe");
		var node = ServerServiceDefinition.builder("csi.v1.Node");
		unary(node, "csi.v1.Node", "NodeGetInfo");
		var devices = ServerServiceDefinition.builder(DEVICES);
		unary(devices, DEVICES, "GetDevicePluginOptions");
		unary(devices, DEVICES, "Allocate");
		watch(devices, DEVICES, "ListAndWatch");
		var health = ServerServiceDefinition.builder(HEALTH);
		watch(health, HEALTH, "NodeWatchResources");
		for (var service : List.of(registration, identity, node, devices, health)) {
			builder.addService(service.build());
		}
		var server = builder.intercept(new Changes()).build().start();
		if (name.equals("announce")) {
			register(path);
		}
		if (name.equals("pings") || name.equals("policy")) {
			new Timer(true).schedule(new TimerTask() {
				@Override
				public void run() {
					tell(changed, true);
				}
			}, 3000);
		}
		var lines = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = lines.readLine()) != null; ) {
			if (line.equals("change")) {
				tell(changed, true);
			} else if (line.equals("stop")) {
				tell(stopped, isChanged);
				server.shutdown().awaitTermination(20, SECONDS);
				new File(path).delete(); // Netty leaves it behind.
				return;
			}
		}
	}

	private synchronized void tell(List<Runnable> streams, boolean isChanged) {
		this.isChanged = isChanged;
		streams.forEach(Runnable::run);
		streams.clear();
	}

	// Makes the change of the case.
	private void configure(NettyServerBuilder builder) {
		switch (name) {
			case "age" -> builder.maxConnectionAge(1, SECONDS).maxConnectionAgeGrace(1, MILLISECONDS);
			case "age-grace" -> builder.maxConnectionAge(1, SECONDS).maxConnectionAgeGrace(1, SECONDS);
			case "pings" -> builder.keepAliveTime(1, SECONDS).keepAliveTimeout(1, SECONDS);
			case "policy" -> builder.permitKeepAliveTime(1, HOURS);
			case "windows-small" -> builder.flowControlWindow(1);
			case "windows-large" -> builder.flowControlWindow(1 << 30);
			case "one-stream" -> builder.maxConcurrentCallsPerConnection(1);
			case "no-table" -> System.exit(64);
			default -> { }
		}
	}

	// Adds metadata, or compression, to every response.
	private final class Changes implements ServerInterceptor {
		@Override
		public <Q, R> ServerCall.Listener<Q> interceptCall(
				ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
			if (name.equals("compressed")) {
				call.setCompression("gzip");
			}
			return next.startCall(new ForwardingServerCall.SimpleForwardingServerCall<>(call) {
				@Override
				public void sendHeaders(Metadata metadata) {
					if (name.equals("metadata")) {
						var key = Metadata.Key.of("x-large", Metadata.ASCII_STRING_MARSHALLER);
						metadata.put(key, "m".repeat(20 << 10));
					}
					super.sendHeaders(metadata);
				}
			}, headers);
		}
	}

	private void unary(ServerServiceDefinition.Builder service, String type, String method) {
		service.addMethod(method(type, method, MethodDescriptor.MethodType.UNARY),
			ServerCalls.asyncUnaryCall((request, response) -> {
				if (method.equals("GetInfo") && ++asked == 1 && name.equals("details")) {
					var key = Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
					var details = new Metadata();
					details.put(key, new byte[] {8, 14});
					response.onError(Status.UNAVAILABLE.withDescription("not yet").asRuntimeException(details));
					return;
				}
				response.onNext(answer(method, request));
				response.onCompleted();
			}));
	}

	private void watch(ServerServiceDefinition.Builder service, String type, String method) {
		service.addMethod(method(type, method, MethodDescriptor.MethodType.SERVER_STREAMING),
			ServerCalls.asyncServerStreamingCall((request, response) -> {
				synchronized (this) {
					System.out.println("watched");
					((ServerCallStreamObserver<byte[]>) response).setOnCancelHandler(() -> { });
					response.onNext(devices(type));
					if (!isChanged) {
						changed.add(() -> send(response, type));
					}
					stopped.add(() -> end(response));
				}
			}));
	}

	private void send(StreamObserver<byte[]> response, String type) {
		if (!((ServerCallStreamObserver<byte[]>) response).isCancelled()) {
			response.onNext(devices(type));
		}
	}

	private static void end(StreamObserver<byte[]> response) {
		if (!((ServerCallStreamObserver<byte[]>) response).isCancelled()) {
			response.onCompleted();
		}
	}

	// Returns the response to a unary call.
	private byte[] answer(String method, byte[] request) {
		switch (method) {
			case "GetInfo":
				var info = join(field(1, kind), field(2, plugin));
				for (var version : versions) {
					info = join(info, field(4, version));
				}
				return info;
			case "NotifyRegistrationStatus":
				var isGood = request.length > 1 && request[1] == 1;
				System.out.println(isGood ? "notified true" : "notified false " + new String(request, UTF_8));
				return new byte[0];
			case "Probe":
				return field(1, new byte[] {8, 1});
			case "NodeGetInfo":
				return join(field(1, "node-1"), new byte[] {16, 8});
			case "Allocate":
				return field(1, field(1, join(field(1, "PEER"), field(2, "1"))));
			default:
				return new byte[0];
		}
	}

	// Returns a message of ListAndWatch or NodeWatchResources.
	private byte[] devices(String type) {
		if (type.equals(HEALTH)) {
			var device = join(field(1, "pool"), field(2, "device-1"));
			return field(1, join(field(1, device), new byte[] {16, (byte) (isChanged ? 2 : 1)}));
		}
		var list = new ByteArrayOutputStream();
		for (int at = 0; at < count; at++) {
			var word = at == 1 && isChanged ? "Unhealthy" : "Healthy";
			list.writeBytes(field(1, join(field(1, "device-" + at), field(2, word))));
		}
		return list.toByteArray();
	}

	// Calls Register on the kubelet.sock beside the plugin's socket.
	private void register(String path) {
		var channel = channel(Path.of(path).resolveSibling("kubelet.sock").toString());
		var file = Path.of(path).getFileName().toString();
		unaryCall(channel, "v1beta1.Registration", "Register",
			join(field(1, "v1beta1"), field(2, file), field(3, plugin)));
		channel.shutdown();
		System.out.println("notified true");
	}

	private static void call(String path) {
		var channel = channel(path);
		var info = unaryCall(channel, REGISTRATION, "GetInfo", new byte[0]);
		unaryCall(channel, REGISTRATION, "NotifyRegistrationStatus", new byte[] {8, 1});
		unaryCall(channel, DEVICES, "Allocate", field(1, field(1, "device-0")));
		var list = ClientCalls.blockingServerStreamingCall(channel,
			method(DEVICES, "ListAndWatch", MethodDescriptor.MethodType.SERVER_STREAMING),
			CallOptions.DEFAULT.withDeadlineAfter(20, SECONDS), new byte[0]).next();
		System.out.println("called " + (info.length > 0 && list.length > 0));
	}

	private static byte[] unaryCall(Channel channel, String type, String method, byte[] request) {
		return ClientCalls.blockingUnaryCall(channel, method(type, method, MethodDescriptor.MethodType.UNARY),
			CallOptions.DEFAULT.withDeadlineAfter(20, SECONDS), request);
	}

	private static ManagedChannel channel(String path) {
		return NettyChannelBuilder.forAddress(new DomainSocketAddress(path))
			.channelType(EpollDomainSocketChannel.class)
			.eventLoopGroup(new EpollEventLoopGroup(1))
			.usePlaintext()
			.build();
	}

	private static MethodDescriptor<byte[], byte[]> method(
			String type, String method, MethodDescriptor.MethodType kind) {
		return MethodDescriptor.<byte[], byte[]>newBuilder(new Same(), new Same())
			.setType(kind)
			.setFullMethodName(MethodDescriptor.generateFullMethodName(type, method))
			.build();
	}

	// Leaves messages as they are.
	private static final class Same implements MethodDescriptor.Marshaller<byte[]> {
		@Override
		public InputStream stream(byte[] message) {
			return new ByteArrayInputStream(message);
		}

		@Override
		public byte[] parse(InputStream stream) {
			try {
				return stream.readAllBytes();
			} catch (IOException error) {
				throw new UncheckedIOException(error);
			}
		}
	}

	private static byte[] field(int number, String value) {
		return field(number, value.getBytes(UTF_8));
	}

	// Returns a field of a message whose value is text or a message.
	private static byte[] field(int number, byte[] value) {
		var bytes = new ByteArrayOutputStream();
		bytes.write(number << 3 | 2);
		int left = value.length;
		for (; left > 127; left >>= 7) {
			bytes.write(left & 127 | 128);
		}
		bytes.write(left);
		bytes.writeBytes(value);
		return bytes.toByteArray();
	}

	private static byte[] join(byte[]... parts) {
		var bytes = new ByteArrayOutputStream();
		for (var part : parts) {
			bytes.writeBytes(part);
		}
		return bytes.toByteArray();
	}
}
