//! What all ends of a connection have in common for the loop that moves their octets.
//!
//! Pure.

use crate::time::Time;

/// One end of a connection: HTTP/2 itself, or gRPC on it.
///
/// The caller has the stream, the clock and the loop; [`http2`](crate::http2) says how it goes.
pub trait Endpoint {
    /// Where to read to. Empty: do not read now; poll events, or write first.
    fn recv_buf(&mut self) -> &mut [u8];

    /// Says that `octets` were read into [`recv_buf`](Self::recv_buf).
    fn received(&mut self, octets: usize, now: Time);

    /// Says that nothing more comes, or can be written: the peer closed the connection, or it
    /// broke. What came before is still worked on.
    fn eof(&mut self, now: Time);

    /// What to write next.
    fn transmit(&self) -> &[u8];

    /// Says that so many octets of [`transmit`](Self::transmit) were written.
    fn sent(&mut self, octets: usize, now: Time);

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    fn poll_timeout(&self) -> Option<Time>;

    /// Ends what has missed its deadline, which may be a call or the connection; calling it early
    /// is harmless.
    fn handle_timeout(&mut self, now: Time);

    /// Octets of memory held, beyond the value itself.
    fn mem_used(&self) -> usize;

    /// Receives what there is room for of octets that were read somewhere else; returns how many
    /// that were.
    fn receive_from(&mut self, octets: &[u8], now: Time) -> usize {
        let room = self.recv_buf();
        let received = room.len().min(octets.len());
        room[..received].copy_from_slice(&octets[..received]);
        self.received(received, now);
        received
    }
}

/// Carries to one end in memory what the other end has to write, as far as there is room for it;
/// returns how many octets that were.
pub fn carry(from: &mut impl Endpoint, to: &mut impl Endpoint, now: Time) -> usize {
    let carried = to.receive_from(from.transmit(), now);
    from.sent(carried, now);
    carried
}
