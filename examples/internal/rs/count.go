package rs

import "fmt"

// Count is the next of bytes that count up, in which the stock programs' -T verify finds mistakes.
type Count byte

// Fill makes b the next bytes.
func (c *Count) Fill(b []byte) {
	for i := range b {
		b[i] = byte(*c)
		*c++
	}
}

// CountError reports a byte that is not the next one.
type CountError struct {
	Offset    int
	Got, Want byte
}

func (e *CountError) Error() string {
	return fmt.Sprintf("byte %d is %#02x, want %#02x (has the peer -T verify too?)", e.Offset, e.Got, e.Want)
}

// Check checks every byte of b.
func (c *Count) Check(b []byte) error {
	for i, got := range b {
		if got != byte(*c) {
			return &CountError{Offset: i, Got: got, Want: byte(*c)}
		}
		*c++
	}
	return nil
}
