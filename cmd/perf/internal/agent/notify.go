package agent

import (
	"fmt"
	"net"
	"os"
)

// Notify notifies systemd that the agent is ready, if systemd started it. Kubernetes needs no word: it connects.
func Notify() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.Dial("unixgram", path) // net reads a leading @ as systemd means it
	if err == nil {
		_, err = c.Write([]byte("READY=1"))
		c.Close()
	}
	if err != nil {
		return fmt.Errorf("notify systemd (NOTIFY_SOCKET): %w", err)
	}
	return nil
}
