//! The interface between one end of a connection and the loop that moves its octets.

use crate::time::Time;

/// One end of a connection: HTTP/2 itself, or gRPC on top of it.
///
/// The caller owns the stream of octets, the clock and the loop; [`http2`](crate::http2) describes
/// the loop.
pub trait Endpoint {
    /// Returns the buffer to read into. If the buffer is empty, do not read now: poll events, or
    /// write first.
    fn recv_buf(&mut self) -> &mut [u8];

    /// Reports that `octets` were read into [`recv_buf`](Self::recv_buf).
    fn received(&mut self, octets: usize, now: Time);

    /// Reports that nothing more can be read or written: the peer closed the connection, or the
    /// connection broke. Octets received before are still processed; those still to be written are
    /// dropped.
    fn eof(&mut self, now: Time);

    /// Returns the octets to write next.
    fn transmit(&self) -> &[u8];

    /// Reports that `octets` of [`transmit`](Self::transmit) were written.
    fn sent(&mut self, octets: usize, now: Time);

    /// Returns whether there is more to do before anything is received: events to poll, received
    /// octets that had to wait, or octets to write.
    fn has_work(&self) -> bool;

    /// Returns when [`handle_timeout`](Self::handle_timeout) must be called next, if at all.
    fn poll_timeout(&self) -> Option<Time>;

    /// Ends the gRPC calls, or the connection, whose deadline has passed; does nothing if called
    /// early.
    fn handle_timeout(&mut self, now: Time);

    /// Returns the number of octets of memory held, beyond the value itself.
    fn mem_used(&self) -> usize;

    /// Receives as many of `octets`, which were read elsewhere, as there is room for; returns their
    /// number.
    fn receive_from(&mut self, octets: &[u8], now: Time) -> usize {
        let room = self.recv_buf();
        let received = room.len().min(octets.len());
        room[..received].copy_from_slice(&octets[..received]);
        self.received(received, now);
        received
    }
}

/// Moves the octets that `from` has to write to `to`, as many as fit; returns their number.
pub fn carry(
    from: &mut (impl Endpoint + ?Sized),
    to: &mut (impl Endpoint + ?Sized),
    now: Time,
) -> usize {
    let carried = to.receive_from(from.transmit(), now);
    from.sent(carried, now);
    carried
}
