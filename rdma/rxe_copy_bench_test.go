package rdma

import (
	"io"
	"testing"
)

// BenchmarkRXE_Copy has io.Copy send 64 MiB at a time from a reader that is like a file, and receive them.
func BenchmarkRXE_Copy(b *testing.B) {
	server, client := newEngines(b, nil)
	s, r := streams(b, server, client)
	defer s.Close()
	defer r.Close()
	const size = 64 << 20
	file := make([]byte, 1<<20)
	b.SetBytes(size)
	go func() {
		for range b.N {
			r := readerFunc(func(p []byte) (int, error) { return copy(p, file), nil })
			if _, err := io.Copy(s, io.LimitReader(r, size)); err != nil {
				b.Error(err)
			}
		}
		_ = s.CloseWrite()
	}()
	sink := make([]byte, 1<<20)
	_, err := io.Copy(writerFunc(func(p []byte) (int, error) { return copy(sink, p), nil }), r)
	ok(b, err)
}
