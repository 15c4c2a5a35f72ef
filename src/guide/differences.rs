//! All differences that a plugin or its handler can notice between kubelet 1.37 and this program.
//!
//! `make full ONLY=parity` plays the same scenarios with kubelet's own plugin manager. It fails on
//! a difference in notifications and calls of handlers that has no row here, and on a row that a
//! scenario names although both behave alike. The README shows the most important rows;
//! [`kubelet`](super::kubelet) has the rules that are matched.
//!
//! # Sockets
//!
//! | what | kubelet | plugind |
//! |---|---|---|
//! | a socket that begins to listen | is called within a second or two | is called at once |
//! | a socket on which nothing listens | is dialed again within 2 minutes | within 3 s (1) |
//! | a socket that is renamed or moved away | stays registered | is registered anew (2) |
//! | a further link to a CSI driver's socket | is refused: the name is taken | no effect |
//! | a socket below a directory that begins with a dot | is found at the start | is ignored |
//! | a link or an endpoint on FUSE or a remote file system | is followed | is refused |
//! | more than 2,048 sockets, very large directories | are found | what is too much is ignored |
//! | the end of a connection | GOAWAY, then end of file | end of file (3) |
//!
//! 1. During the first ten minutes of the socket; then as kubelet.
//! 2. Under its new path, if that is in a plugins directory; under the old one it is deregistered.
//! 3. GOAWAY precedes it only after a connection error or a timeout of the plugin.
//!
//! # What a plugin reports
//!
//! | what | kubelet | plugind |
//! |---|---|---|
//! | an empty name | is passed to the handler | is refused |
//! | a name with a control character, or of more than 1 KiB | is passed on | is refused |
//! | more than 256 versions, or one of more than 128 octets | are passed on | is refused |
//! | a reply to GetInfo of more than 64 KiB | is accepted up to 4 MiB | is refused |
//! | what leads to the same refusal as before | is notified each time | is notified once (3) |
//!
//! 3. If the type has no handler or the plugin fails validation.
//!
//! # Order and time
//!
//! | what | kubelet | plugind |
//! |---|---|---|
//! | seconds until retries (4) | 1, 3, 6, 11, ... 67 | 0.5, 1.5, 3.5, ... 63.5 |
//! | two plugins of one name, the first one pending | do not wait | the second waits for 5 s |
//! | an endpoint that is not ready | is called once | is called again for 2 s (5) |
//! | a DRA driver at the endpoint of another | is refused | is refused, unless that is down |
//!
//! 4. Then every two minutes.
//! 5. From the moment at which the socket was first seen.
//!
//! # Registered plugins
//!
//! | what | kubelet | plugind |
//! |---|---|---|
//! | the sum of lists and messages is above the memory budget | are kept | are refused (6) |
//! | more than 16,384 devices in a list | up to 4 MiB | are refused; the list before stays |
//! | several device lists within 100 ms | are all applied | the newest is applied |
//! | a device plugin whose ListAndWatch stream ends | stays closed | is opened again (7) |
//! | meanwhile, an older plugin of its resource | is used at once | is used after 5 min (8) |
//!
//! 6. And tried again later; small ones are accepted.
//! 7. Unless the plugin returns UNIMPLEMENTED, or registered by calling `kubelet.sock`.
//! 8. At once if the newer plugin registered by calling `kubelet.sock`.
