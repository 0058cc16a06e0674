package layer

import "time"

// copyPiece is how much is copied at a time: a block of package rdma.
const copyPiece = 32 << 10

// copying copies n times size bytes from one buffer to another.
func copying(size, n int) Run {
	from, to := make([]byte, size), make([]byte, size)
	copy(to, from) // the pages are there
	before, start := now(nil), time.Now()
	for range n {
		for at := 0; at < size; at += copyPiece {
			copy(to[at:min(at+copyPiece, size)], from[at:])
		}
	}
	took := time.Since(start).Seconds()
	u := now(nil).since(before)
	return Run{Carrier: Copy, Bytes: size, Conns: 1, Messages: n, Client: &u}.over(took)
}
