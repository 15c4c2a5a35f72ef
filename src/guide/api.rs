//! The API of the daemon: what its socket answers, for scripts, commands and scrapers.
//!
//! The daemon serves HTTP/1.1 on a Unix socket: `plugind.sock` in the run directory
//! (`/run/plugind/plugind.sock` for root), or the path of `--socket`
//! ([`operator`](super::operator)). The commands of `plugind` are clients of this socket, and
//! `curl` is another:
//!
//! ```text
//! curl --unix-socket /run/plugind/plugind.sock http://localhost/v1/plugins
//! ```
//!
//! Every process that can open the socket may read. Its mode is 0660; `--socket-group` sets its
//! group. Changes are for root and the daemon's own user, others get 403; members of
//! `--allocate-group` may only request devices. The process opens no network socket; one that
//! systemd passes in serves metrics and nothing else.
//!
//! # Requests
//!
//! | request | response |
//! |---|---|
//! | `GET /v1/plugins[?type=T][&state=S]` | the records |
//! | `GET /v1/plugins/TYPE/NAME` | the records of one plugin, or 404 |
//! | `GET /v1/devices[?name=R]` | the devices of all resources, or of one, or 404 |
//! | `GET /v1/status` | the daemon: version, directories, counts by state, limits |
//! | `GET /v1/events[?since=G][&follow=1]` | the events after generation G, one per line |
//! | `GET /v1/watch[?since=G]` | the changes of records after generation G, one per line |
//! | `GET /metrics` | the metrics, as Prometheus reads them |
//! | `GET /livez`, `GET /readyz` | 200 `ok`, or 503 with a line for each reason |
//! | `POST /v1/retry[?socket=PATH]` | tries one socket again, or all that have failed |
//! | `POST /v1/retry?type=T&name=N` | tries one plugin again |
//! | `POST /v1/rescan` | reads every directory again; responds when that is done |
//! | `POST /v1/reload` | reads the configuration again: `changed`, `needsRestart`; else 422 |
//! | `POST /v1/log?filter=F` | sets the log filter, as in `RUST_LOG`; empty: the configured one |
//! | `POST /v1/allocate?resource=R[=N]` | grants N devices (default: 1); see below |
//! | `POST /v1/forget?type=T&name=N` | deregisters a plugin that is down, at once; else 409 |
//!
//! Names in paths and values in queries are percent-encoded; `+` means itself. A name in a path may
//! contain slashes. `HEAD` is answered as `GET`, without the body. Errors have the body
//! `{"error":"..."}`: 400 for a request that is not understood, 403, 404, 405 with `Allow`, 408,
//! 409 for a conflict with the state of a plugin or its devices, 413 for a body, 422 for a
//! configuration that is not valid, with a line for each problem, 431 for a head that is too long,
//! 500 for a list that would be too long or a CDI file that cannot be written, 502 for a plugin
//! that refuses, 503 for too many clients or while the daemon stops, 505.
//!
//! A connection has one request: every response has `Connection: close`, and what follows a request
//! is ignored. Responses have a `Content-Length`, except for those that follow changes, which end
//! with the connection.
//!
//! `message`, `detail`, `lastError`, `problem` and `error` are texts for people, as they are in the
//! log: what came from a plugin is escaped in them, as `\n` or `\u{1b}`. Other values are what the
//! plugin reported.
//!
//! # Records
//!
//! A record is what is known of one registration socket, whose path is its key: several plugins may
//! have one type and name, and the plugin behind a socket may not be known yet.
//!
//! | key | meaning |
//! |---|---|
//! | `type`, `name`, `endpoint`, `versions` | what the plugin reported; absent until it has |
//! | `state` | one of the states below |
//! | `socket` | the path of the registration socket; for announced plugins the endpoint |
//! | `since` | when the state was entered |
//! | `generation` | the generation of the last change of the record |
//! | `attempts` | how often the registration was attempted |
//! | `reason`, `lastError` | why the last attempt failed: that of the event, and text |
//! | `nextRetry` | when the next attempt is due |
//! | `pid`, `uid` | the process of the plugin, if it is known |
//! | `command`, `cgroup` | of that process, if one plugin is asked for; it chooses the former |
//! | `otherPidNamespace` | likewise: whether its PID namespace is not the daemon's |
//! | `warnings` | why `--trust strict` would refuse the plugin; absent if it would not |
//! | `details` | what the handler knows: `csi`, `devices` (counts) or `dra` |
//!
//! | state | meaning |
//! |---|---|
//! | `Discovered` | the socket was found; in a dry run, the plugin would be registered |
//! | `Connecting` | the daemon connects, or waits for the reply to GetInfo |
//! | `Registering` | the handler is asked, or the plugin is notified of the outcome |
//! | `Registered` | registered, and the one to use for its name |
//! | `Standby` | registered, but a newer plugin of the same name is used |
//! | `Down` | registered, but its process has ended or it does not answer |
//! | `Backoff` | the last attempt failed; the next one follows after a pause |
//! | `Rejected` | refused; tried again after a pause, or when the handlers change |
//! | `Deregistering` | is being deregistered |
//!
//! # Devices
//!
//! Of several plugins of a resource, the current one lists the devices to use, and only these are
//! returned, by resource and ID. A resource exists as long as a plugin of it is registered, but not
//! longer than 300 s after the plugin has ended the stream of its lists. Until the stream is back,
//! all its devices are unhealthy; that of an announced plugin comes back when it announces itself.
//!
//! A client that is granted devices gets one line of JSON: `resources`, each with `resource`,
//! `deviceIds`, and what the plugin has answered (`envs`, `mounts`, `devices`, `annotations`,
//! `cdiDevices`); and `cdiDevices`, the names for a container runtime. The response has no end, and
//! the devices are granted until the client closes its connection. `resource` may be given up to 8
//! times, with up to 256 devices each; `device=ID`, several times for one resource, names devices
//! that have to be among them. `wait=MS` waits that long, in the order of arrival; else 409 names
//! the processes that hold the devices. A plugin that does not answer is 409, too, one that refuses
//! is 502. At most 128 clients hold devices or wait for some: fewer if the daemon may have few
//! descriptors.
//!
//! The devices of DRA drivers that report their health follow, by driver (`resource`) and
//! `POOL/DEVICE` (`id`). Their health is `Unknown` while the driver does not report it, or has not
//! in the time that it names (30 s if none), and they are forgotten after as long again.
//!
//! | key | meaning |
//! |---|---|
//! | `resource` | the name of the plugin, such as `example.com/gpu` |
//! | `holder` | the process (`pid`, `uid`) to which the device is granted, if there is one |
//! | `id` | the ID of the device; of more than 1,024 octets, the first ones and a count |
//! | `health` | `Healthy`, `Unhealthy`, or `Unknown` (only devices of DRA drivers) |
//! | `numaNodes` | the NUMA nodes that are close to the device, at most 1,024; absent if none is |
//! | `socket` | the registration socket of the plugin |
//!
//! # Generations
//!
//! Events and changes of records are counted together. The count is the generation; it begins again
//! when the daemon starts, which `instance` shows. A list shows one moment, and a watch from its
//! generation on has every change since then. `GET /v1/events` does not notice a `since` of an
//! earlier daemon, and leaves out all events up to it: compare `instance` first.
//!
//! # The watch
//!
//! Without `since`, a watch begins with `ADDED` for every record and a `BOOKMARK`. After that, and
//! with `since`, there is a line for each change:
//!
//! ```text
//! {"event":"MODIFIED","generation":12,"record":{...}}
//! ```
//!
//! | event | meaning |
//! |---|---|
//! | `ADDED` | a record that the reader may not know |
//! | `MODIFIED` | a record that has changed |
//! | `DELETED` | a record that was removed; only its `socket` is given |
//! | `BOOKMARK` | the reader has seen everything up to this generation |
//! | `EXPIRED` | changes after `since` were forgotten: list again |
//!
//! Changes within 10 ms are sent together, 10 ms after the first of them, unless they are many.
//!
//! The daemon keeps a position for each reader and nothing else. So a reader that is slow misses
//! intermediate states, and always gets the latest state of each record. When the daemon stops, the
//! response ends, possibly without the changes of the last 10 ms.
//!
//! # Events
//!
//! An event has `generation`, `type` (`Normal` or `Warning`), `reason`, `socket`, `plugin`,
//! `message`, `detail`, `count`, `firstTime` and `lastTime`. The newest 256 are kept, and of one
//! socket or directory the newest 8, so that a plugin that flaps displaces no events of others. An
//! event that repeats one of these is counted. If events that the reader has not seen were
//! dropped, a line has the reason `EventsDropped`, the generation up to which the reader has seen
//! all, and the `lastTime` of the newest one that was dropped. Times follow the system's clock as
//! it is when they are read: they are right as soon as the clock is.
//!
//! # Limits
//!
//! | limit | value |
//! |---|---|
//! | clients | 16, of which 4 places are for root and the user of the daemon; the next gets 503 |
//! | head of a request | 8 KiB and 64 fields |
//! | time for a request | 10 s from the connection |
//! | response, unless it follows changes | 16 MiB |
//! | client that does not read | 30 s, unless it waits for changes |
//!
//! Each turn of the loop renders one long response at most; plugins never wait for more than that.
