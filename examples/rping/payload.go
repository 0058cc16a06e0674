package main

import "fmt"

// Sizes of a ping that the stock rping accepts.
const (
	minSize = 23
	maxSize = 64<<10 - 1
)

// fill makes b ping n: its number, then the letters from 'A' to 'z' round and round, each ping one letter further on,
// and a zero byte.
func fill(b []byte, n int) {
	const first, letters = 'A', 'z' - 'A' + 1
	text := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[text:] {
		b[text+i] = byte(first + (n+i)%letters)
	}
	b[len(b)-1] = 0
}

// PayloadError reports a ping with wrong bytes.
type PayloadError struct {
	Offset    int // of the first wrong byte
	Got, Want byte
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("byte %d is %#02x, want %#02x", e.Offset, e.Got, e.Want)
}

// verify checks every byte of ping n.
func verify(b []byte, n int) error {
	want := make([]byte, len(b))
	fill(want, n)
	for i := range b {
		if b[i] != want[i] {
			return &PayloadError{Offset: i, Got: b[i], Want: want[i]}
		}
	}
	return nil
}
