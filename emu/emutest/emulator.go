package emutest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"github.com/pureverbs/pureverbs/emu/internal/control"
)

// Emulator is the emulator that this process runs on. It is safe for concurrent use. What it changes stays changed
// for the tests that follow. Its methods fail if the emulator has ended, and name what they do not know.
type Emulator struct{ address string }

// Connect returns the emulator that this process runs on, for programs that are no tests. Tests call [Need].
func Connect() (*Emulator, error) {
	address := os.Getenv(control.Env)
	if address == "" {
		return nil, errors.New("no emulator: " + control.Env + " is not set")
	}
	return &Emulator{address}, nil
}

// Device is an emulated adapter.
type Device struct {
	Name  string `json:"name"` // mlx5_0
	Ports []Port `json:"ports"`
}

// Addr returns the first IPv4 address of the adapter's ports, or the zero Addr.
func (d *Device) Addr() netip.Addr {
	for _, p := range d.Ports {
		for _, g := range p.GIDs {
			if a := g.GID.Unmap(); a.Is4() {
				return a
			}
		}
	}
	return netip.Addr{}
}

// Port is a port of an emulated adapter.
type Port struct {
	Number int    `json:"number"` // counts from 1
	Link   string `json:"link"`   // Ethernet or InfiniBand
	Up     bool   `json:"up"`
	Netdev string `json:"netdev"` // the interface; "" on InfiniBand
	GIDs   []GID  `json:"gids"`   // without empty entries
}

// GID is an entry of a port's GID table.
type GID struct {
	Index  int        `json:"index"`
	GID    netip.Addr `json:"gid"`
	Type   string     `json:"type"` // as in sysfs: IB/RoCE v1, RoCE v2
	Netdev string     `json:"netdev"`
	VLAN   int        `json:"vlan"` // 0 if there is none
}

// Devices returns the adapters that have not been removed.
func (e *Emulator) Devices() ([]Device, error) { return ask[[]Device](e, "devices") }

// Device returns the adapter with a name.
func (e *Emulator) Device(name string) (*Device, error) {
	list, err := e.Devices()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("the emulator has no device %q", name)
}

// SetPort takes a port up or down. The program gets the event PORT_ACTIVE or PORT_ERR.
func (e *Emulator) SetPort(device string, port int, up bool) error {
	return e.do("port", device, strconv.Itoa(port), map[bool]string{true: "up", false: "down"}[up])
}

// SetGID changes an entry of a port's GID table, and with it the address of the interface. The zero Addr empties the
// entry. The program gets the event GID_CHANGE.
func (e *Emulator) SetGID(device string, port, index int, gid netip.Addr) error {
	text := "none"
	if gid.IsValid() {
		text = gid.String()
	}
	return e.do("gid", device, strconv.Itoa(port), strconv.Itoa(index), text)
}

// Remove removes an adapter, as when it is unplugged. The program gets the event DEVICE_FATAL.
func (e *Emulator) Remove(device string) error { return e.do("remove", device) }

// ActiveFault is a fault that has been injected.
type ActiveFault struct {
	ID    int    `json:"id"`
	Spec  string `json:"spec"`
	Seen  uint64 `json:"seen"`  // how many operations it applied to
	Fired uint64 `json:"fired"` // how many of them failed
}

// Inject injects a fault, such as "rnr:after=100,count=3", and returns its ID.
func (e *Emulator) Inject(spec string) (int, error) { return ask[int](e, "fault", "add", spec) }

// Faults returns the active faults.
func (e *Emulator) Faults() ([]ActiveFault, error) { return ask[[]ActiveFault](e, "fault", "list") }

// ClearFault ends a fault.
func (e *Emulator) ClearFault(id int) error { return e.do("fault", "clear", strconv.Itoa(id)) }

// ClearFaults ends all faults.
func (e *Emulator) ClearFaults() error { return e.do("fault", "clear") }

// SetTrace stops the trace that [Trace] began, or continues it.
func (e *Emulator) SetTrace(on bool) error {
	return e.do("trace", map[bool]string{true: "on", false: "off"}[on])
}

// Violation is a rule of strict mode that a process has broken.
type Violation struct {
	Rule    string `json:"rule"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
	Count   uint64 `json:"count"`
	Detail  string `json:"detail"` // of the first time
}

// Violations returns what strict mode has found so far. It fails without [Strict].
func (e *Emulator) Violations() ([]Violation, error) { return ask[[]Violation](e, "strict") }

// Stats are the objects and resources of the emulator. They show what a program has not released.
type Stats struct {
	Calls       uint64 `json:"calls"`    // system calls of programs that the emulator has carried out or looked at
	Contexts    int    `json:"contexts"` // open devices
	Objects     int    `json:"objects"`  // of all contexts: QPs, CQs, MRs and so on
	Goroutines  int    `json:"goroutines"`
	Descriptors int    `json:"descriptors"`
	Heap        uint64 `json:"heap"` // bytes
	Mapped      uint64 `json:"mapped"`
	MaxRSS      uint64 `json:"max_rss"`
}

// Stats returns the objects and resources of the emulator.
func (e *Emulator) Stats() (Stats, error) { return ask[Stats](e, "stats") }

// Paging counts pages of memory that is registered for on-demand paging.
type Paging struct {
	Faults        uint64 `json:"page_faults"`
	Invalidations uint64 `json:"page_invalidations"`
	Prefetched    uint64 `json:"page_prefetch"`
}

// Paging returns the counts of an adapter.
func (e *Emulator) Paging(device string) (Paging, error) { return ask[Paging](e, "paging", device) }

// Blocks returns how many blocks of compressed completions an adapter has written.
func (e *Emulator) Blocks(device string) (int, error) { return ask[int](e, "blocks", device) }

// Listeners returns the ports that programs listen on in rdma_cm.
func (e *Emulator) Listeners() ([]int, error) { return ask[[]int](e, "listeners") }

// Receivers returns how many raw packet QPs can receive frames: they have a steering rule and a posted receive.
func (e *Emulator) Receivers() (int, error) { return ask[int](e, "receivers") }

// do sends a request.
func (e *Emulator) do(words ...string) error {
	_, err := ask[json.RawMessage](e, words...)
	return err
}

// ask sends a request and returns the reply.
func ask[T any](e *Emulator, words ...string) (T, error) {
	var v T
	reply, err := control.Do(e.address, words...)
	if err == nil {
		err = json.Unmarshal(reply, &v)
	}
	if err != nil {
		return v, fmt.Errorf("emulator: %w", err)
	}
	return v, nil
}
