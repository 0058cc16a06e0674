package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

const (
	// DefaultPort is the TCP port on which a report is given.
	DefaultPort = 18518

	request    = "rdmaperf doctor 1\n"
	maxReport  = 4 << 20
	maxDevices = 256
	maxPorts   = 256
	maxClients = 8
	// patience bounds the exchange with a client, which sends only its request.
	patience = 10 * time.Second
	// askPatience bounds the exchange with a server, which examines its host meanwhile.
	askPatience = 60 * time.Second
)

// Peer has the facts of another host's report: facts, no text to act on.
type Peer struct {
	Tool          string   `json:"tool"`
	SchemaVersion int      `json:"schema_version"`
	Program       string   `json:"program"`
	Hostname      string   `json:"hostname"`
	Kernel        string   `json:"kernel"`
	Worst         Severity `json:"worst"`
	Devices       []Device `json:"devices"`
}

// Serve sends a report to every client that asks, until ctx is done. Connections with another request are closed.
func Serve(ctx context.Context, l net.Listener, examine func() *Report) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	free := make(chan struct{}, maxClients)
	looking := make(chan struct{}, 1)
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // out of descriptors, perhaps
			tick.Wait(ctx, 100*time.Millisecond)
			continue
		}
		select {
		case free <- struct{}{}:
		default: // a flood
			c.Close()
			continue
		}
		go func() {
			defer func() { c.Close(); <-free }()
			c.SetDeadline(time.Now().Add(patience))
			var got [len(request)]byte
			if _, err := io.ReadFull(c, got[:]); err != nil || string(got[:]) != request {
				return
			}
			looking <- struct{}{}
			r := examine()
			<-looking
			c.SetDeadline(time.Now().Add(patience))
			r.JSON(c) // a client that has gone does not matter
		}()
	}
}

// Ask asks another machine for its report.
func Ask(ctx context.Context, address string) (*Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; start rdmaperf doctor --serve there", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c, request); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(c, maxReport+1))
	if err != nil {
		return nil, err
	}
	return parsePeer(b)
}

func parsePeer(b []byte) (*Peer, error) {
	if len(b) > maxReport {
		return nil, fmt.Errorf("the peer's report is longer than %d bytes", maxReport)
	}
	p := new(Peer)
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("the peer's reply of %d bytes is not a report of rdmaperf doctor: %w", len(b), err)
	}
	if p.Tool != "rdmaperf doctor" || p.SchemaVersion != 1 {
		return nil, fmt.Errorf("the peer's reply is from %.40q, version %d; want rdmaperf doctor, version 1", p.Tool,
			p.SchemaVersion)
	}
	if len(p.Devices) > maxDevices {
		return nil, fmt.Errorf("the peer has %d devices, more than %d", len(p.Devices), maxDevices)
	}
	for _, d := range p.Devices {
		if len(d.Ports) > maxPorts || len(d.Links) != len(d.Ports) {
			return nil, fmt.Errorf("the peer's device %.40q has %d ports and %d links", d.Name, len(d.Ports),
				len(d.Links))
		}
	}
	return p, nil
}
