// A plugin on grpc-js, and a client of one:
//
//     plugin.js serve SOCKET CASE
//     plugin.js call SOCKET CASE
//
// Messages are written by hand, so that it needs grpc-js only. On its standard input, `change` breaks
// a device and `stop` ends the plugin in order; at the end of the input it ends at once.
"use strict";

const path = require("path");
const readline = require("readline");
const grpc = require("@grpc/grpc-js");

const [role, socket, name] = process.argv.slice(2);
const kinds = {
	csi: ["CSIPlugin", "csi.example.com", ["1.0.0"]],
	dra: ["DRAPlugin", "dra.example.com", ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]],
};
const [kind, plugin, versions] = kinds[name] || ["DevicePlugin", "example.com/peer", ["v1beta1"]];
const count = ["many", "windows-small", "windows-large"].includes(name) ? 10000 : 2;

// What a case changes in a server; null: grpc-js cannot do it.
const cases = {
	age: { "grpc.max_connection_age_ms": 1000, "grpc.max_connection_age_grace_ms": 1 },
	"age-grace": { "grpc.max_connection_age_ms": 1000, "grpc.max_connection_age_grace_ms": 1000 },
	pings: { "grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 1000 },
	"one-stream": { "grpc.max_concurrent_streams": 1 },
	"windows-large": { "grpc-node.flow_control_window": 1 << 28 },
	compressed: { "grpc.default_compression_algorithm": 2 },
	"windows-small": null,
	"no-table": null,
	policy: null,
};

const changed = [];
const stopped = [];
let isChanged = false;
let asked = 0;

// Returns a field of a message whose value is text or a message.
function field(number, value) {
	const body = Buffer.from(value);
	const head = [(number << 3) | 2];
	let left = body.length;
	for (; left > 127; left >>= 7) head.push((left & 127) | 128);
	head.push(left);
	return Buffer.concat([Buffer.from(head), body]);
}

// Returns a message of ListAndWatch or NodeWatchResources.
function devices(isHealth) {
	if (isHealth) {
		const device = Buffer.concat([field(1, "pool"), field(2, "device-1")]);
		return field(1, Buffer.concat([field(1, device), Buffer.from([16, isChanged ? 2 : 1])]));
	}
	const list = [];
	for (let at = 0; at < count; at++) {
		const word = at === 1 && isChanged ? "Unhealthy" : "Healthy";
		list.push(field(1, Buffer.concat([field(1, `device-${at}`), field(2, word)])));
	}
	return Buffer.concat(list);
}

// Returns the response to a unary call.
function answer(method, request) {
	switch (method) {
	case "GetInfo":
		return Buffer.concat([field(1, kind), field(2, plugin), ...versions.map((it) => field(4, it))]);
	case "NotifyRegistrationStatus":
		console.log(request[1] === 1 ? "notified true" : `notified false ${request.toString("latin1")}`);
		break;
	case "Probe":
		return field(1, [8, 1]);
	case "NodeGetInfo":
		return Buffer.concat([field(1, "node-1"), Buffer.from([16, 8])]);
	case "Allocate":
		return field(1, field(1, Buffer.concat([field(1, "PEER"), field(2, "1")])));
	}
	return Buffer.alloc(0);
}

function unary(method) {
	return (call, respond) => {
		if (method === "GetInfo" && ++asked === 1 && name === "details") {
			const metadata = new grpc.Metadata();
			metadata.set("grpc-status-details-bin", Buffer.from([8, 14]));
			respond({ code: grpc.status.UNAVAILABLE, details: "not yet", metadata });
			return;
		}
		if (name === "metadata") {
			const metadata = new grpc.Metadata();
			metadata.set("x-large", "m".repeat(20 << 10));
			call.sendMetadata(metadata);
		}
		respond(null, answer(method, call.request));
	};
}

function watch(isHealth) {
	return (call) => {
		console.log("watched");
		call.write(devices(isHealth));
		if (!isChanged) changed.push(() => call.write(devices(isHealth)));
		stopped.push(() => call.end());
	};
}

// Returns the definition of a method: messages stay as they are.
function definition(path, responseStream = false) {
	const same = (message) => message;
	return {
		path,
		requestStream: false,
		responseStream,
		requestSerialize: same,
		requestDeserialize: same,
		responseSerialize: same,
		responseDeserialize: same,
	};
}

const services = {
	"pluginregistration.Registration": ["GetInfo", "NotifyRegistrationStatus"],
	"csi.v1.Identity": ["Probe"],
	"csi.v1.Node": ["NodeGetInfo"],
	"v1beta1.DevicePlugin": ["GetDevicePluginOptions", "Allocate", "ListAndWatch"],
	"v1alpha1.DRAResourceHealth": ["NodeWatchResources"],
};

function serve() {
	if (cases[name] === null) process.exit(64);
	const server = new grpc.Server(cases[name]);
	for (const [service, methods] of Object.entries(services)) {
		const definitions = {};
		const handlers = {};
		for (const method of methods) {
			const isStream = ["ListAndWatch", "NodeWatchResources"].includes(method);
			definitions[method] = definition(`/${service}/${method}`, isStream);
			handlers[method] = isStream ? watch(method !== "ListAndWatch") : unary(method);
		}
		server.addService(definitions, handlers);
	}
	server.bindAsync("unix:" + socket, grpc.ServerCredentials.createInsecure(), (error) => {
		if (error) throw error;
		if (name === "announce") register();
	});
	if (name === "pings") setTimeout(change, 3000);
	const lines = readline.createInterface({ input: process.stdin });
	lines.on("line", (line) => {
		if (line === "change") {
			change();
		} else if (line === "stop") {
			stopped.forEach((it) => it());
			server.tryShutdown(() => process.exit(0));
			lines.removeAllListeners("close");
		}
	});
	lines.on("close", () => process.exit(0));
}

function change() {
	isChanged = true;
	changed.forEach((it) => it());
}

// Calls Register on the kubelet.sock beside the plugin's socket.
function register() {
	const { Register } = client({ Register: "/v1beta1.Registration/Register" },
		path.join(path.dirname(socket), "kubelet.sock"));
	const request = [field(1, "v1beta1"), field(2, path.basename(socket)), field(3, plugin)];
	Register(Buffer.concat(request)).then(() => console.log("notified true"));
}

// Returns functions that call the methods of a server.
function client(methods, at) {
	const channel = new grpc.Client("unix:" + at, grpc.credentials.createInsecure());
	const same = (message) => message;
	const calls = { channel };
	for (const [method, full] of Object.entries(methods)) {
		calls[method] = (request) => new Promise((resolve, reject) => {
			const options = { deadline: Date.now() + 20000 };
			channel.makeUnaryRequest(full, same, same, request, options, (error, reply) => {
				if (error) reject(error);
				else resolve(reply);
			});
		});
	}
	return calls;
}

async function call() {
	const registration = "/pluginregistration.Registration/";
	const calls = client({
		GetInfo: registration + "GetInfo",
		Notify: registration + "NotifyRegistrationStatus",
		Allocate: "/v1beta1.DevicePlugin/Allocate",
	}, socket);
	const info = await calls.GetInfo(Buffer.alloc(0));
	await calls.Notify(Buffer.from([8, 1]));
	await calls.Allocate(field(1, field(1, "device-0")));
	const same = (message) => message;
	const list = calls.channel.makeServerStreamRequest("/v1beta1.DevicePlugin/ListAndWatch", same, same, Buffer.alloc(0));
	list.on("data", (devices) => {
		console.log("called", info.length > 0 && devices.length > 0);
		process.exit(0);
	});
}

if (role === "serve") serve();
else call();
