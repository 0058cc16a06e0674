package wire

import (
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestIPv6Only: who asks for IPv6 is reached by it alone.
func TestIPv6Only(t *testing.T) {
	ln, err := Listen(t.Context(), TCP6, "", 0, testutil.Patience)
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		c, err := ln.Accept(t.Context(), nil)
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	if _, err := Dial(t.Context(), TCP6, "", "127.0.0.1", ln.Port(), time.Second, 0); err == nil {
		t.Error("an address of IPv4 is one of IPv6")
	}
	if _, err := Dial(t.Context(), TCP, "", "127.0.0.1", ln.Port(), time.Second, 0); err == nil {
		t.Error("it is reached by IPv4")
	}
	c, err := Dial(t.Context(), TCP6, "", "::1", ln.Port(), testutil.Patience, 0)
	if err != nil {
		t.Skipf("::1 is not there: %v", err)
	}
	c.c.Write(greeting())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}
