package session

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// openDevice opens the device and checks what can be checked without a peer.
func (s *Session) openDevice(device string, port uint8) error {
	var err error
	if s.dev, err = ibv.Open(device); err != nil {
		return err
	}
	if err = s.pin(); err != nil {
		return err
	}
	if s.attr, err = s.dev.QueryDevice(); err != nil {
		return err
	}
	s.ibPort = port
	if s.port, err = s.dev.QueryPort(port); err != nil {
		return err
	}
	name := fmt.Sprintf("%s port %d", s.dev.Name(), port)
	if s.port.State != ibv.PortActive {
		return fmt.Errorf("%s is %v, not active; bring its link up, or choose another one with -d and -i", name,
			s.port.State)
	}
	if err := s.chooseMTU(name); err != nil {
		return err
	}
	if err := s.checkDatagram(); err != nil {
		return err
	}
	if err := s.checkPaging(); err != nil {
		return err
	}
	if size := s.plan.Size; s.port.MaxMsgSize != 0 && size > uint64(s.port.MaxMsgSize) {
		return fmt.Errorf("size (-s) %d > %d, the largest message of %s", size, s.port.MaxMsgSize, name)
	}
	return s.chooseOutReads()
}

// pin has this process run near the device, before it allocates anything for it.
func (s *Session) pin() error {
	allowed, err := place.Allowed()
	if err != nil {
		return err
	}
	s.place, err = place.Choose(sysfs.DefaultRoot(), s.dev.Name(), allowed, s.plan.CPUs, s.plan.NoPin)
	if err != nil {
		return err
	}
	s.unpin, err = s.place.Pin()
	return err
}

// Device returns the device, or nil while none is open.
func (s *Session) Device() *ibv.Device { return s.dev }

// Counters returns the counters of the port.
func (s *Session) Counters() map[string]uint64 {
	return sysfs.DefaultRoot().Counters(s.dev.Name(), s.ibPort)
}

// PortDown returns an error that names the port if it is not active any more: the peer cannot be reached then, and
// what fails tells of the peer only.
func (s *Session) PortDown() error {
	if s.dev == nil {
		return nil
	}
	p, err := s.dev.QueryPort(s.ibPort)
	if err != nil || p.State == ibv.PortActive {
		return nil
	}
	return fmt.Errorf("%s port %d of this end is %v: its link went down during the test", s.dev.Name(), s.ibPort,
		p.State)
}

func (s *Session) chooseMTU(name string) error {
	s.mtu = s.port.ActiveMTU
	want := s.plan.MTU
	if want == 0 {
		return nil
	}
	for m := ibv.MTU256; m <= ibv.MTU4096; m++ {
		if m.Bytes() == want {
			s.mtu = m
		}
	}
	if s.mtu > s.port.ActiveMTU {
		return fmt.Errorf("mtu (-m) %d > %d, the active mtu of %s", want, s.port.ActiveMTU.Bytes(), name)
	}
	return nil
}

func (s *Session) chooseOutReads() error {
	if !s.plan.Verb.Fetches() {
		s.setup.OutReads = 1 // as perftest tells the peer
		return nil
	}
	most := min(s.attr.MaxQPRdAtom, plan.MaxOutReads)
	want := s.plan.OutReads
	if want > most {
		return fmt.Errorf("outstanding reads (-o) %d > %d, the limit of %s", want, most, s.dev.Name())
	}
	if want == 0 {
		want = max(most, 1)
	}
	s.setup.OutReads = want
	return nil
}

// Notes that stand wherever figures of software devices do.
const (
	SoftRoCENote = "SoftRoCE: software device, says nothing about a NIC"
	EmulatedNote = "emulated adapter: says nothing about a NIC"
)

// software returns the note about a device that is software, "" for a NIC.
func software(root sysfs.Root, name string, vendor uint32) string {
	const vendorRXE = 0xffffff
	if vendor == vendorRXE || strings.HasPrefix(name, "rxe") || root.OnNetdev(name) {
		return SoftRoCENote
	}
	if d, err := root.Device(name); err == nil && d.NodeDescription == "emulated" {
		return EmulatedNote
	}
	return ""
}
