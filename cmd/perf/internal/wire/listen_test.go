package wire

import (
	"strings"
	"testing"
	"time"
)

// TestListenFD refuses what is no socket. TestRXE_ServeStock has those that are.
func TestListenFD(t *testing.T) {
	for _, fd := range []int{-1, 9999} {
		_, err := ListenFD(t.Context(), fd, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "descriptor") {
			t.Errorf("descriptor %d: %v", fd, err)
		}
	}
}
