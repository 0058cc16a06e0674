package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// openDevice opens the device and checks what can be checked without a peer.
func (s *Session) openDevice(device string, port uint8) (err error) {
	if s.dev, err = s.open(device); err != nil {
		return err
	}
	if err = s.pin(); err != nil {
		return err
	}
	if s.attr, err = s.dev.QueryDevice(); err != nil {
		return err
	}
	s.plan.Link.IBPort = port // rdma_cm chooses one
	if s.port, err = s.dev.QueryPort(port); err != nil {
		return err
	}
	name := fmt.Sprintf("%s port %d", s.dev.Name(), port)
	if s.port.State != ibv.PortActive {
		return fmt.Errorf("%s is %v, not active; bring its link up, or choose another one with -d and -i", name,
			s.port.State)
	}
	return inOrder(s.checkSecondPort, s.checkIndices, func() error { return s.chooseMTU(name) }, s.checkDatagram,
		s.checkPaging, func() error {
			if s.plan.Verb == wire.Atomic && s.attr.AtomicCap == ibv.AtomicNone {
				return fmt.Errorf("atomic: %s has no atomics", s.dev.Name())
			}
			return nil
		}, s.checkPacing, s.checkCounters, func() error {
			if size := s.plan.Load.Size; s.port.MaxMsgSize != 0 && size > uint64(s.port.MaxMsgSize) {
				return fmt.Errorf("size (-s) %d > %d, the largest message of %s", size, s.port.MaxMsgSize, name)
			}
			return nil
		}, s.chooseOutReads)
}

// pin has this process run near the device, before it allocates anything for it.
func (s *Session) pin() error {
	allowed, err := place.Allowed()
	if err != nil {
		return err
	}
	asked := s.plan.Place.CPUs
	if n := s.plan.Place.Node; n != plan.Auto {
		if asked, err = place.CPUsOf(hostfacts.This(), n, allowed); err != nil {
			return fmt.Errorf("numa node (--numa-node): %w", err)
		}
	}
	s.place, err = place.Choose(hostfacts.This(), s.dev.Name(), allowed, asked, s.plan.Place.NoPin)
	if err != nil {
		return err
	}
	s.unpin, err = s.place.Pin()
	return err
}

// Device returns the device, or nil while none is open.
func (s *Session) Device() *ibv.Device { return s.dev }

// Counters returns the counters of the port, or the sums of both.
func (s *Session) Counters() map[string]uint64 {
	sum := map[string]uint64{}
	for _, port := range s.plan.IBPorts() {
		c, err := hostfacts.This().Counters(s.dev.Name(), int(port))
		if err != nil {
			continue
		}
		for name, n := range c.All() {
			sum[name] += n
		}
	}
	return sum
}

// checkCounters looks for the counters that were named.
func (s *Session) checkCounters() error {
	if s.plan.Report.CounterNames == nil && !s.plan.Report.Counters {
		return nil
	}
	return missing(s.dev.Name(), s.Counters(), s.plan.Report.CounterNames)
}

// missing returns an error if there are no counters at all, or one has none of the names.
func missing(device string, all map[string]uint64, names []string) error {
	if len(all) == 0 {
		return fmt.Errorf("counters (--counters, --report-counters): %s shows none, as devices in containers: a test "+
			"could not tell whether one rises", device)
	}
	for _, n := range names {
		if _, ok := all[n]; !ok {
			return fmt.Errorf("counter (--report-counters) %q: %s has none of that name, but %s", n, device,
				strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	return nil
}

// PortDown returns an error that names the port if it is not active any more: the peer cannot be reached then, and the
// failure is about the peer only. On software devices a work request fails a moment before its port is reported to be
// down.
func (s *Session) PortDown(failed error) error {
	if s.dev == nil {
		return nil
	}
	patience := time.Duration(0)
	if wc := (*ibv.WCError)(nil); errors.As(failed, &wc) && wc.Status == ibv.WCLocQPOpErr {
		patience = time.Second
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var errs []error
		for _, port := range s.plan.IBPorts() {
			if p, err := s.dev.QueryPort(port); err == nil && p.State != ibv.PortActive {
				errs = append(errs, fmt.Errorf("%s port %d of this end is %v: its link went down during the test",
					s.dev.Name(), port, p.State))
			}
		}
		if errs != nil || !time.Now().Before(end) {
			return errors.Join(errs...)
		}
	}
}

// checkSecondPort checks the other port of a test on both: it is like the first one.
func (s *Session) checkSecondPort() error {
	if !s.plan.Link.DualPort {
		return nil
	}
	if n := s.attr.PhysPortCnt; n < 2 {
		return fmt.Errorf("dual port (-O): %s has %d port; give two devices (-d a,b) for two adapters",
			s.dev.Name(), n)
	}
	second, err := s.dev.QueryPort(2)
	if err != nil {
		return err
	}
	if second.State != ibv.PortActive || second.LinkLayer != s.port.LinkLayer {
		return fmt.Errorf("dual port (-O): %s port 1 is %v, %v, and port 2 is %v, %v: both must be active "+
			"and have the same link layer", s.dev.Name(), s.port.LinkLayer, s.port.State, second.LinkLayer,
			second.State)
	}
	s.port.ActiveMTU = min(s.port.ActiveMTU, second.ActiveMTU)
	return nil
}

func (s *Session) chooseMTU(name string) error {
	s.mtu = s.port.ActiveMTU
	want := s.plan.Link.MTU
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
		s.setup.OutReads = 1 // as perftest sends it to the peer
		return nil
	}
	most := min(s.attr.MaxQPRdAtom, plan.MaxOutReads)
	want := s.plan.Link.OutReads
	if want > most {
		return fmt.Errorf("outstanding reads (-o) %d > %d, the limit of %s", want, most, s.dev.Name())
	}
	s.setup.OutReads = cmp.Or(want, max(most, 1))
	return nil
}

// Notes that accompany all figures of software devices.
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
	if d, err := root.Device(name); err == nil && d.Emulated() {
		return EmulatedNote
	}
	return ""
}
