//go:build linux && (amd64 || arm64)

package machine

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/netdev"
	"github.com/pureverbs/pureverbs/emu/internal/strict"
	"github.com/pureverbs/pureverbs/emu/internal/sysfs"
	"github.com/pureverbs/pureverbs/emu/internal/trace"
	"github.com/pureverbs/pureverbs/emu/internal/verbs"
)

// machine is the emulated machine and what watches it: it passes what happens to the report, the trace and the faults,
// and does to the devices what these ask for. The fabric's lock guards it.
type machine struct {
	tree   *sysfs.Tree
	links  *netdev.Links // nil without a network of the programs' own
	ifaces map[string]*iface
	fabric *hca.Fabric
	eng    *engine.Engine
	cm     *cm.Server
	faults *fault.Set
	report *strict.Report // nil without strict mode
	trace  *trace.Trace   // nil without a trace
	calls  atomic.Uint64  // that were trapped
}

// watch connects them all. The engine asks only at the points where a fault is active.
func (m *machine) watch(v *verbs.Server, c *cm.Server) {
	m.fabric.Lock()
	defer m.fabric.Unlock()
	m.fabric.Watch = m
	m.cm = c
	if m.trace != nil {
		m.eng.Hooks.Trace = m.trace.Engine
		v.Trace = m.trace.Command
		c.Trace = func(r cm.Record) { m.trace.CM(&r) }
	}
	m.hook()
}

// hook follows a change of the active faults.
func (m *machine) hook() {
	h := &m.eng.Hooks
	h.AtWQE, h.AtCQE, h.AtDoorbell = nil, nil, nil
	if m.faults.Active(fault.AtWQE) {
		h.AtWQE = m.atWQE
	}
	if m.faults.Active(fault.AtCQE) {
		h.AtCQE = m.atCQE
	}
	if m.faults.Active(fault.AtDoorbell) {
		h.AtDoorbell = m.atDoorbell
	}
}

// spoiled is how a fault spoils an answer.
var spoiled = map[fault.Kind]hca.ReplyFault{
	fault.ReplyShort: hca.ReplyShort, fault.ReplyLong: hca.ReplyLong, fault.ReplyRandom: hca.ReplyRandom,
}

// at returns the fault that befalls an operation on device d.
func (m *machine) at(p fault.Point, d *hca.Device, op fault.Op) *fault.Spec {
	if d != nil {
		op.Device = d.Config.Name
	}
	f := m.faults.At(p, &op, func(f *fault.Spec) {
		m.tell(op.PID, op.Device, f)
		m.act(d, f)
	})
	if f != nil {
		m.tell(op.PID, op.Device, f)
	}
	return f
}

func (m *machine) tell(pid int, device string, f *fault.Spec) {
	if m.trace != nil {
		m.trace.Fault(pid, device, f.Text)
	}
}

// engineFault is the fault that befalls an operation in the engine, and the delay that goes with it.
func (m *machine) engineFault(p fault.Point, c *hca.Context, op fault.Op) (fault.Kind, uint32) {
	op.PID = c.PID
	f := m.at(p, c.Device, op)
	if f == nil {
		return fault.None, 0
	}
	return f.Kind, uint32(f.Delay.Microseconds())
}

func (m *machine) atWQE(qp *hca.QP, opcode uint8, _ uint64) fault.Kind {
	f, _ := m.engineFault(fault.AtWQE, qp.Context, fault.Op{QP: qp.Num, Opcode: int(opcode)})
	return f
}

func (m *machine) atDoorbell(qp *hca.QP) fault.Kind {
	f, _ := m.engineFault(fault.AtDoorbell, qp.Context, fault.Op{QP: qp.Num, Opcode: -1})
	return f
}

func (m *machine) atCQE(cq *hca.CQ, qp *hca.QP) (fault.Kind, uint32) {
	op := fault.Op{CQ: cq.Num, Opcode: -1}
	if qp != nil {
		op.QP = qp.Num
	}
	return m.engineFault(fault.AtCQE, cq.Context, op)
}

// unaddressed are the commands that need not know how the network is today.
var unaddressed = map[string]bool{"alloc_pd": true, "dealloc_pd": true, "reg_mr": true, "dereg_mr": true,
	"create_comp_channel": true, "create_cq": true, "destroy_cq": true, "create_qp": true, "destroy_qp": true,
	"uar_alloc": true, "uar_destroy": true, "async_event_alloc": true, "CM_CREATE_ID": true, "CM_DESTROY_ID": true,
	"CM_GET_EVENT": true, "CM_INIT_QP_ATTR": true, "CM_ACCEPT": true, "CM_REJECT": true, "CM_DISCONNECT": true}

// Command is the hca.Watcher's.
func (m *machine) Command(c *hca.Context, name string) (unix.Errno, hca.Reply) {
	if !unaddressed[name] {
		m.fresh()
	}
	if !m.faults.Active(fault.AtCommand) {
		return 0, hca.Reply{}
	}
	op := fault.Op{Cmd: strings.ToLower(name), Opcode: -1}
	var d *hca.Device
	if c != nil {
		d, op.PID = c.Device, c.PID
	}
	if f := m.at(fault.AtCommand, d, op); f != nil {
		return f.Errno, hca.Reply{How: spoiled[f.Kind], Seed: f.Fired << 32}
	}
	if d != nil && d.Gone {
		return unix.EIO, hca.Reply{}
	}
	return 0, hca.Reply{}
}

// Violation is the hca.Watcher's.
func (m *machine) Violation(pid int, rule, detail string) {
	if m.report != nil {
		m.report.Violation(pid, rule, detail)
	}
}

// Event is the hca.Watcher's.
func (m *machine) Event(c *hca.Context, typ hca.EventType, element uint64) {
	if m.trace != nil {
		m.trace.Event(c, typ, element)
	}
}

// act carries out a fault of a port or a device; d is where it was noticed, nil for all devices.
func (m *machine) act(d *hca.Device, f *fault.Spec) {
	devices := m.fabric.Devices
	if d != nil {
		devices = []*hca.Device{d}
	}
	for _, d := range devices {
		// What a device does not have cannot fail there.
		switch f.Kind {
		case fault.PortDown, fault.PortUp:
			_ = m.setPort(d, f.Port, f.Kind == fault.PortUp)
		case fault.GIDChange:
			_ = m.setGID(d, f.Port, f.Index, f.GID)
		case fault.DeviceRemoval:
			_ = m.remove(d)
		}
	}
}

func (m *machine) setPort(d *hca.Device, port int, up bool) error {
	if port < 1 || port > len(d.Ports) {
		return fmt.Errorf("%s has no port %d", d.Config.Name, port)
	}
	p := d.Ports[port-1]
	p.SetLink(up)
	if m.links != nil {
		m.links.SetCarrier(p.Config.Netdev, up)
	}
	return m.showPort(p)
}

// showPort shows how a port is.
func (m *machine) showPort(p *hca.Port) error {
	state, phys := config.PortStates(p.Active)
	return m.tree.SetPortState(p.Device.Index, p.Number, state, phys)
}

// setGID changes an entry and keeps what else it says; a zero GID empties it.
func (m *machine) setGID(d *hca.Device, port, index int, gid config.Addr) error {
	if port < 1 || port > len(d.Ports) {
		return fmt.Errorf("%s has no port %d", d.Config.Name, port)
	}
	p := d.Ports[port-1]
	var g, old config.GID
	if v := p.GID(index); v != nil {
		old = *v
	}
	if !gid.IsZero() {
		if g = old; old.GID.IsZero() {
			g = config.GID{Type: config.GIDTypeRoCEv2, Netdev: p.Config.Netdev}
		}
		g.GID = gid
	}
	if err := m.putGID(p, index, g); err != nil {
		return err
	}
	if m.links != nil {
		m.address(p, old, g)
	}
	return nil
}

// putGID changes an entry, and nothing else.
func (m *machine) putGID(p *hca.Port, index int, g config.GID) error {
	if err := m.tree.SetGID(p.Device.Index, p.Number, index, g); err != nil {
		return err
	}
	if e := p.Device.SetGID(p.Number, index, g); e != 0 {
		return e
	}
	return nil
}

// address follows a change of a GID table: an address goes when no entry has it any more.
func (m *machine) address(p *hca.Port, old, g config.GID) {
	for i := range p.Config.GIDTableLen {
		if v := p.GID(i); v != nil && v.GID == old.GID && v.Netdev == old.Netdev {
			old = config.GID{}
		}
	}
	m.links.SetGID(old, false)
	m.links.SetGID(g, true)
}

func (m *machine) remove(d *hca.Device) error {
	if err := m.tree.Remove(d.Index); err != nil {
		return err
	}
	d.Remove()
	if m.links != nil {
		m.links.Remove(m.fabric.Config, d.Index)
	}
	m.cm.DeviceRemoved(d)
	return nil
}

// finish ends what watches and returns the exit code.
func (m *machine) finish(code int) (int, error) {
	var err error
	if m.trace != nil {
		err = m.trace.Close()
	}
	if m.report != nil {
		if strictCode := m.report.Finish(); code == 0 {
			code = strictCode
		}
	}
	return code, err
}

// opens is called when a thread opens a device.
func (m *machine) opens(tid int) {
	if m.report != nil {
		if pid, err := guest.TGID(tid); err == nil {
			m.report.Opened(pid)
		}
	}
	if runtime.NumCPU() < 4 {
		calm(tid)
	}
}
