package rdma

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestWriteAccepted: a peer may read all and close before a call returns that has handed over its last byte. The call
// has not failed.
func TestWriteAccepted(t *testing.T) {
	const rounds, size = 3000, 150 // three frames
	for name, write := range map[string]func(s *Stream) (int64, error){
		"Write": func(s *Stream) (int64, error) {
			n, err := s.Write(make([]byte, size))
			return int64(n), err
		},
		"WriteBuffers": func(s *Stream) (int64, error) {
			return s.WriteBuffers(net.Buffers{make([]byte, size/2), make([]byte, size/2), nil})
		},
		"ReadFrom": func(s *Stream) (int64, error) { return s.ReadFrom(bytes.NewReader(make([]byte, size))) },
	} {
		t.Run(name, func(t *testing.T) {
			for n := range rounds {
				l := fakeLinkOf(wire.Hello{Block: 64}, wire.Stream, nil)
				var peers sync.WaitGroup
				for range 4 { // so that one is likely to have the lock as soon as it is free
					peers.Go(func() {
						for all := false; !all; {
							l.Mu.Lock()
							if all = l.Queue.Staged() == (size+63)/64; all {
								l.End.PeerPinged(wire.FINClosed)
							}
							l.Mu.Unlock()
						}
					})
				}
				wrote, err := write(&Stream{l: l})
				if wrote != size || err != nil {
					t.Fatalf("round %d: %d bytes of %d, %v", n, wrote, size, err)
				}
				peers.Wait()
			}
		})
	}
}
