package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/cm"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Side describes one end of a test.
type Side struct {
	Device    string // empty for the peer
	Firmware  string
	Port      uint8
	LinkLayer string
	RateGbps  float64 // 0: not known
	DataPath  string
	LID       uint16
	GIDIndex  int // -1: none
	GID       string
	MTU       int    // bytes, of the path
	Inline    int    // bytes
	Software  string // the note about a device that is none, "" for a NIC
}

// defaultQPTimeout is the command line's, and near to that of rdma_cm's paths.
const defaultQPTimeout = 14

// maxOutReads is the most that ConnectOptions can ask for: the next number is Zero.
const maxOutReads = ibv.Zero - 1

// Setup is what the two ends agreed on. Ready is called with it, before the
// first message.
type Setup struct {
	Local       Side
	PeerAddress string
	PeerVersion string
	PeerOurs    bool
	PeerGID     string
	PeerLID     uint16
	RDMACM      bool
}

// session holds all that a test has open.
type session struct {
	cfg   *Config
	dev   *ibv.Device
	attr  *ibv.DeviceAttr
	port  *ibv.PortAttr
	ctx   context.Context
	conn  *wire.Conn
	cm    *cm.Peer // with rdma_cm, else nil
	terms wire.Agreed
	mtu   ibv.MTU

	pd    *ibv.PD
	mr    *ibv.MR
	scq   *ibv.CQ
	rcq   *ibv.CQ
	qps   []*ibv.QP
	conns []*rdmacm.Conn // with rdma_cm: they own the QPs
	own   []wire.Dest
	peer  []wire.Dest
	links []*link
	slot  uint64 // bytes of one send or receive area
	setup Setup
}

// openDevice opens the device and checks what can be checked without a peer.
func (s *session) openDevice() error {
	c := s.cfg
	var err error
	if s.dev, err = ibv.Open(c.Device); err != nil {
		return err
	}
	if s.attr, err = s.dev.QueryDevice(); err != nil {
		return err
	}
	if s.port, err = s.dev.QueryPort(c.IBPort); err != nil {
		return err
	}
	name := fmt.Sprintf("%s port %d", s.dev.Name(), c.IBPort)
	if s.port.State != ibv.PortActive {
		return fmt.Errorf("%s is %v, not active; bring its link up, or choose another one with -d and -i", name, s.port.State)
	}
	s.mtu = s.port.ActiveMTU
	if c.MTU != 0 {
		for m := ibv.MTU256; m <= ibv.MTU4096; m++ {
			if m.Bytes() == c.MTU {
				s.mtu = m
			}
		}
		if s.mtu > s.port.ActiveMTU {
			return fmt.Errorf("mtu (-m) %d > %d, the active mtu of %s", c.MTU, s.port.ActiveMTU.Bytes(), name)
		}
	}
	if s.port.MaxMsgSize != 0 && c.Size > uint64(s.port.MaxMsgSize) {
		return fmt.Errorf("size (-s) %d > %d, the largest message of %s", c.Size, s.port.MaxMsgSize, name)
	}
	if c.Verb == wire.Read {
		most := min(s.attr.MaxQPRdAtom, maxOutReads)
		if c.OutReads > most {
			return fmt.Errorf("outstanding reads (-o) %d > %d, the limit of %s", c.OutReads, most, s.dev.Name())
		}
		if c.OutReads == 0 {
			c.OutReads = max(most, 1)
		}
	} else {
		c.OutReads = 1 // as perftest tells the peer
	}
	return nil
}

// Notes that stand wherever figures of software devices do.
const (
	SoftRoCENote = "SoftRoCE: software device, says nothing about a NIC"
	EmulatedNote = "emulated adapter: says nothing about a NIC"
)

// software is the note about a device that is software, "" for a NIC.
func software(name string, a *ibv.DeviceAttr) string {
	const vendorRXE = 0xffffff
	dir := "/sys/class/infiniband/" + name
	// Only software devices sit on a netdev, which older kernels name here.
	if _, err := os.Stat(dir + "/parent"); err == nil || a.VendorID == vendorRXE || strings.HasPrefix(name, "rxe") {
		return SoftRoCENote
	}
	if b, err := os.ReadFile(dir + "/node_desc"); err == nil && strings.TrimSpace(string(b)) == "emulated" {
		return EmulatedNote
	}
	return ""
}

// hello meets the peer.
func (s *session) hello() error {
	line := 64
	if b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size"); err == nil {
		var n int
		if _, err := fmt.Sscan(string(b), &n); err == nil && n >= 16 && n <= 1024 {
			line = n
		}
	}
	c := s.cfg
	var err error
	s.terms, err = s.conn.Hello(wire.Hello{
		PageSize: os.Getpagesize(), CacheLine: line, MTU: int(s.mtu),
		Params: c.wireParams(), MaxReads: s.attr.MaxQPRdAtom, ShortNeg: c.ShortNeg,
	})
	s.mtu = ibv.MTU(s.terms.MTU)
	return err
}

// build makes queue pairs and memory.
func (s *session) build() error {
	c := s.cfg
	slot, total, err := c.memory(os.Getpagesize(), s.terms)
	if err != nil {
		return &wire.ExchangeError{Peer: s.conn.Peer(), Step: "memory", Err: err}
	}
	s.slot = slot
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	access := ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead
	if s.mr, err = s.pd.AllocMR(int(total), access, nil); err != nil {
		return err
	}
	depth := c.TxDepth
	if c.Metric == wire.Latency {
		depth = max(depth, 2) // the next one is posted before the last one is done with
	}
	opt := &ibv.CQOptions{NoEvents: !c.Events}
	if s.scq, err = s.dev.CreateCQ(depth*c.QPs, opt); err != nil {
		return err
	}
	s.rcq = s.scq
	if c.Verb == wire.Send {
		if s.rcq, err = s.dev.CreateCQ(max(c.RxDepth*c.QPs, 1), opt); err != nil {
			return err
		}
	}
	qo := ibv.QPOptions{Type: ibv.RC, MaxSendWR: depth, MaxRecvWR: max(c.RxDepth, 1), MaxInline: c.Inline}
	if c.Inline == Auto {
		qo.MaxInline = c.autoInline()
	}
	if s.cm != nil {
		if err := s.connectCM(qo); err != nil {
			return err
		}
	} else if err := s.makeQPs(qo); err != nil {
		return err
	}
	s.peer = make([]wire.Dest, c.QPs)
	s.conn.UseGID(s.useGID())
	s.fillMemory()
	return nil
}

// mostForPeer is how much more memory than without it a peer may make this end allocate.
const mostForPeer = 256 << 20

// A PeerMemoryError is a peer whose pages would make this end allocate too much.
type PeerMemoryError struct {
	PageSize int // of the peer
	QPs      int
	Bytes    uint64 // that the test would take
	Own      uint64 // that it takes with the pages of this machine
}

// Error returns one line.
func (e *PeerMemoryError) Error() string {
	return fmt.Sprintf("the peer's pages of %d bytes make %d queue pairs take %d bytes of memory, %d more than this machine's pages: "+
		"allowed are %d more; use fewer queue pairs (-q)", e.PageSize, e.QPs, e.Bytes, e.Bytes-e.Own, mostForPeer)
}

// memory is how many bytes one send or receive area takes, and all of them.
func (c *Config) memory(page int, terms wire.Agreed) (slot, total uint64, err error) {
	areas := 2 * uint64(c.QPs)
	slot = roundUp(max(c.Size, uint64(terms.PageSize)), uint64(terms.CacheLine))
	total = slot * areas
	if total > 1<<40 {
		return 0, 0, fmt.Errorf("%d queue pairs of %d bytes need %d bytes of memory", c.QPs, c.Size, total)
	}
	if own := max(c.Size, uint64(page)) * areas; total > own+mostForPeer {
		return 0, 0, &PeerMemoryError{terms.PageSize, c.QPs, total, own}
	}
	return slot, total, nil
}

// makeQPs makes the queue pairs, and what the peer has to know of them.
func (s *session) makeQPs(qo ibv.QPOptions) error {
	c := s.cfg
	for i := range c.QPs {
		qp, err := s.pd.CreateQP(s.scq, s.rcq, &qo)
		if err != nil && c.Inline == Auto && qo.MaxInline > 0 {
			qo.MaxInline = 0
			qp, err = s.pd.CreateQP(s.scq, s.rcq, &qo)
		}
		if err != nil {
			return fmt.Errorf("queue pair %d of %d: %w", i+1, c.QPs, err)
		}
		s.qps = append(s.qps, qp)
	}
	c.Inline = qo.MaxInline
	for i, qp := range s.qps {
		ep, err := qp.Endpoint(c.IBPort, c.GIDIndex)
		if err != nil {
			return err
		}
		s.own = append(s.own, wire.Dest{
			LID: ep.LID, OutReads: uint16(c.OutReads), QPN: ep.QPN, PSN: ep.PSN,
			RKey: s.mr.RKey(), VAddr: s.mr.Addr() + s.recvOff(i), GID: ep.GID,
		})
	}
	return nil
}

func (s *session) useGID() bool {
	return s.port.LinkLayer == ibv.LinkEthernet || s.cfg.GIDIndex != Auto
}

func (s *session) sendOff(i int) uint64 { return uint64(i) * s.slot }
func (s *session) recvOff(i int) uint64 { return uint64(s.cfg.QPs+i) * s.slot }

func (s *session) sendArea(i int) []byte { return s.mr.Bytes()[s.sendOff(i):][:s.slot] }
func (s *session) recvArea(i int) []byte { return s.mr.Bytes()[s.recvOff(i):][:s.slot] }

// fillMemory puts the payload where the verb takes it from.
func (s *session) fillMemory() {
	for i := range s.qps {
		if s.cfg.Verb == wire.Read {
			fillPattern(s.recvArea(i), i)
		} else {
			fillPattern(s.sendArea(i), i)
		}
	}
}

// connect tells the peer about the queue pairs and brings them up, in the order
// of the steps that this test has.
func (s *session) connect() error {
	c := s.cfg
	round := func(name string, keep bool) error {
		for i := range s.own {
			d, err := s.conn.Keys(fmt.Sprintf("%s of queue pair %d", name, i+1), s.own[i])
			if err != nil {
				return err
			}
			if keep {
				s.peer[i] = d
			}
		}
		return nil
	}
	meet := func(name string) error {
		_, err := s.conn.Keys(name, s.own[0])
		return err
	}
	if c.Metric == wire.Latency && c.Verb != wire.Send {
		if err := meet("first meeting"); err != nil {
			return err
		}
	}
	if err := round("keys", true); err != nil {
		return err
	}
	if s.cm == nil {
		if err := s.bringUp(); err != nil {
			return err
		}
	}
	if c.Verb == wire.Send {
		if err := meet("meeting when ready"); err != nil {
			return err
		}
	}
	if err := round("keys again", false); err != nil {
		return err
	}
	if c.Verb != wire.Send {
		if err := meet("meeting when ready"); err != nil {
			return err
		}
	}
	s.makeLinks()
	s.describe()
	return nil
}

// bringUp connects the queue pairs to those that the peer has told of.
func (s *session) bringUp() error {
	c := s.cfg
	if err := s.checkPeer(); err != nil {
		return err
	}
	opt := &ibv.ConnectOptions{
		MTU:             s.mtu,
		PKeyIndex:       c.PKeyIndex,
		AckTimeout:      ibv.TimeCode(c.QPTimeout).Duration(),
		MaxDestRdAtomic: uint8(c.OutReads),
		SL:              c.SL,
		TrafficClass:    c.TClass,
	}
	if c.QPTimeout == 0 {
		opt.AckTimeout = ibv.Forever
	}
	for i, qp := range s.qps {
		d := s.peer[i]
		opt.MaxRdAtomic = uint8(max(1, min(int(d.OutReads), s.attr.MaxQPInitRdAtom, maxOutReads)))
		ep := ibv.Endpoint{QPN: d.QPN, PSN: d.PSN, LID: d.LID, GID: d.GID, MTU: s.mtu, Type: ibv.RC}
		if err := qp.Connect(ep, opt); err != nil {
			return err
		}
	}
	return nil
}

// checkPeer refuses pairs of addresses that no packet can travel between.
func (s *session) checkPeer() error {
	if !s.useGID() {
		return nil
	}
	own, peer := ibv.GID(s.own[0].GID), ibv.GID(s.peer[0].GID)
	if own.IsIPv4Mapped() != peer.IsIPv4Mapped() {
		return fmt.Errorf("the GID here is %v, that of the peer %v: one is IPv4, the other is not; choose a matching pair with -x (show_gids lists them)", own, peer)
	}
	return nil
}

func (s *session) makeLinks() {
	c := s.cfg
	op := map[wire.Verb]ibv.Opcode{wire.Send: ibv.OpSend, wire.Write: ibv.OpWrite, wire.Read: ibv.OpRead}[c.Verb]
	for i, qp := range s.qps {
		l := &link{
			id: uint64(i), name: fmt.Sprintf("queue pair %d (number %#x, peer %#x)", i+1, qp.Num(), s.peer[i].QPN),
			sq: qp, rq: qp, iters: c.messages(), mod: c.CQMod,
			local: s.mr.Addr() + s.sendOff(i), remote: s.peer[i].VAddr, rlocal: s.mr.Addr() + s.recvOff(i),
		}
		for range c.PostList {
			l.wrs = append(l.wrs, ibv.SendWR{Opcode: op, SGEs: []ibv.SGE{{LKey: s.mr.LKey()}}, Remote: ibv.RemoteAddr{RKey: s.peer[i].RKey}})
		}
		if c.receives() {
			for range min(c.RxDepth, pollBatch) {
				l.rwrs = append(l.rwrs, ibv.RecvWR{ID: uint64(i) << ordinalBits, SGEs: []ibv.SGE{{LKey: s.mr.LKey()}}})
			}
		}
		s.links = append(s.links, l)
	}
}

func (s *session) describe() {
	c := s.cfg
	path, _ := s.scq.DataPath()
	s.setup = Setup{
		Local: Side{
			Device: s.dev.Name(), Firmware: s.attr.FirmwareVersion, Port: c.IBPort,
			LinkLayer: s.port.LinkLayer.String(), RateGbps: s.port.RateGbps(), DataPath: path.String(),
			LID: s.own[0].LID, GIDIndex: -1, MTU: s.mtu.Bytes(), Inline: c.Inline,
			Software: software(s.dev.Name(), s.attr),
		},
		PeerAddress: s.conn.Peer(),
		PeerVersion: s.terms.PeerVersion,
		PeerOurs:    s.terms.Ours,
		PeerLID:     s.peer[0].LID,
		RDMACM:      s.cm != nil,
	}
	if s.cm != nil {
		s.describeCM()
		return
	}
	if s.useGID() {
		s.setup.Local.GID = ibv.GID(s.own[0].GID).String()
		s.setup.Local.GIDIndex = s.gidIndex()
		s.setup.PeerGID = ibv.GID(s.peer[0].GID).String()
	}
}

// gidIndex finds out which index was chosen.
func (s *session) gidIndex() int {
	if s.cfg.GIDIndex != Auto && s.cm == nil {
		return s.cfg.GIDIndex
	}
	best := -1
	table, err := s.dev.GIDTable()
	if err != nil {
		return best
	}
	for _, e := range table {
		if e.Port == s.cfg.IBPort && e.GID == ibv.GID(s.own[0].GID) && (best < 0 || e.Type == ibv.GIDTypeRoCEv2) {
			best = e.Index
		}
	}
	return best
}

// close closes everything, children first, and returns what went wrong.
func (s *session) close() error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if s.cm != nil {
		add(s.cm.Close())
	}
	for _, conn := range s.conns {
		add(conn.Close())
	}
	if s.cm == nil {
		for _, qp := range s.qps {
			add(qp.Close())
		}
	}
	if s.rcq != nil && s.rcq != s.scq {
		add(s.rcq.Close())
	}
	if s.scq != nil {
		add(s.scq.Close())
	}
	if s.mr != nil {
		add(s.mr.Close())
	}
	if s.pd != nil {
		add(s.pd.Close())
	}
	if s.dev != nil {
		add(s.dev.Close())
	}
	return errors.Join(errs...)
}

// waiting makes a CQ sleep for completions instead of looking again and again.
type waiting struct {
	cq  *ibv.CQ
	ctx context.Context
}

// Poll waits for at least one completion.
func (w waiting) Poll(wcs []ibv.WC) (int, error) { return w.cq.Wait(w.ctx, wcs) }
