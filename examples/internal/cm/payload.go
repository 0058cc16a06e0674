package cm

import "fmt"

// Fill makes b message n.
func Fill(b []byte, n int) {
	for i := range b {
		b[i] = pattern(n, i)
	}
}

// pattern differs from byte to byte and from message to message.
func pattern(n, i int) byte { return byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1 }

// PayloadError reports a message with other bytes than were sent.
type PayloadError struct {
	Message   int // counting from 0
	Offset    int // of the first wrong byte
	Got, Want byte
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("message %d: byte %d is %#02x, want %#02x (is the peer one of these examples too?)", e.Message,
		e.Offset, e.Got, e.Want)
}

// Check checks every byte of message n.
func Check(b []byte, n int) error {
	for i, got := range b {
		if want := pattern(n, i); got != want {
			return &PayloadError{Message: n, Offset: i, Got: got, Want: want}
		}
	}
	return nil
}
