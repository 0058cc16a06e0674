package agent

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// Notify notifies systemd that the agent is ready, if systemd started it. Kubernetes needs no word: it connects.
func Notify() error { return notify("READY=1\nSTATUS=ready") }

// NotifyWaiting notifies systemd that the agent runs, and what it waits for. Boot does not wait for it.
func NotifyWaiting(what string) error {
	return notify("READY=1\nSTATUS=waiting: " + strings.ReplaceAll(what, "\n", "; "))
}

// Supervised reports whether systemd waits for a notification.
func Supervised() bool { return os.Getenv(notifyEnv) != "" }

const notifyEnv = "NOTIFY_SOCKET"

func notify(text string) error {
	path := os.Getenv(notifyEnv)
	if path == "" {
		return nil
	}
	c, err := net.Dial("unixgram", path) // net reads a leading @ as systemd means it
	if err == nil {
		_, err = c.Write([]byte(text))
		c.Close()
	}
	if err != nil {
		return fmt.Errorf("notify systemd (%s): %w", notifyEnv, err)
	}
	return nil
}
