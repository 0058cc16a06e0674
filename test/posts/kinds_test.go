//go:build linux

package posts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/work"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// impossible returns why no QP of an engine posts a kind of work request, "" if some QP does. The row says it.
func impossible(k *work.Kind, path ibv.DataPath) string {
	switch {
	case path == ibv.DataPathDirect && k.Device == 0:
		return "no WQE that this library writes"
	case path == ibv.DataPathOps && k.SendOp == 0 && k.By == work.ByMasks:
		return "no call of rdma-core"
	}
	return ""
}

// lacks returns why no QP of the emulated device posts on an engine what other devices do.
func lacks(k *work.Kind, path ibv.DataPath) string {
	switch {
	case k.By == work.BySendOps:
		return "no mlx5 device has it; TestFake_Kinds of package ibv posts it"
	case k.Fields&work.TSO != 0 && path == ibv.DataPathOps:
		return "libmlx5 damages the frames; TestFake_Kinds of package ibv posts it"
	}
	return ""
}

// TestRXE_PostsKinds posts each kind of work request on a QP of each engine. Its completion has the opcode of its row.
func TestRXE_PostsKinds(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("compares the two data paths: runs on the emulated device only")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: TestRXE_RawNobody of package ibv has the refusal")
	}
	tab := newTable(t, rxe)
	defer tab.close()
	for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect} {
		for op := range ibv.Opcode(len(work.Kinds)) {
			if k := &work.Kinds[op]; k.Name != "" {
				t.Run(fmt.Sprintf("%v/%v", path, op), func(t *testing.T) {
					postKind(t, tab.hosts[0], rxe, path, op, k)
				})
			}
		}
	}
}

// postKind posts a work request of a kind on a QP that is connected with itself.
func postKind(t *testing.T, h *host, rxe testutil.RXE, path ibv.DataPath, op ibv.Opcode, k *work.Kind) {
	s := newKindSide(t, h, rxe, path, k)
	if why := impossible(k, path) + lacks(k, path); why != "" {
		if s.err == nil {
			_, s.err = s.qp.PostSend([]ibv.SendWR{s.request(op, k)})
		}
		if !errors.Is(s.err, ibv.ErrNotSupported) && !errors.Is(s.err, syscall.EINVAL) {
			t.Fatalf("%s, and yet: %v", why, s.err)
		}
		return
	}
	must(t, s.err)
	if n, err := s.qp.PostSend([]ibv.SendWR{s.request(op, k)}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	want := ibv.WCOpcode(k.Completion)
	if k.Fields&work.WholeWQE != 0 {
		want = ibv.WCDriver2
	}
	if wc := s.sent(); wc.Status != ibv.WCSuccess || wc.Opcode != want || wc.ID != 5 {
		t.Errorf("%+v, want %v", wc, want)
	}
}

// kindSide is a QP that takes a kind of work request, and memory.
type kindSide struct {
	*testing.T
	cq  *ibv.CQ
	qp  *ibv.QP
	mr  *ibv.MR
	mw  *ibv.MW
	key *mlx5dv.Mkey
	err error // of the QP
}

func newKindSide(t *testing.T, h *host, rxe testutil.RXE, path ibv.DataPath, k *work.Kind) *kindSide {
	s := &kindSide{T: t}
	var err error
	s.cq, err = h.dev.CreateCQ(64, &ibv.CQOptions{DataPath: path})
	must(t, err)
	t.Cleanup(func() { must(t, s.cq.Close()) })
	s.mr, err = h.pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic|ibv.MWBind, nil)
	must(t, err)
	t.Cleanup(func() { must(t, s.mr.Close()) })
	o := &mlx5dv.QPOptions{QPOptions: ibv.QPOptions{MaxInline: 160, MaxSendSGE: 2, Type: ibv.RC}}
	switch {
	case k.Fields&work.TSO != 0:
		o.Type, o.Raw.MaxTSOHeader, o.MaxInline = ibv.RawPacket, 64, 0
	case k.By == work.BySendOps:
		o.SendOps = ibv.SendOps(k.SendOp)
	case k.Fields&work.WholeWQE != 0:
		o.DriverOps = mlx5dv.WithRawWQE
	case k.Fields&work.Copy != 0:
		o.DriverOps = mlx5dv.WithMemcpy
	case k.Fields&work.MkeyChange != 0:
		o.DriverOps = mlx5dv.WithMkeyConfigure
	}
	if s.qp, s.err = mlx5dv.CreateQP(h.pd, s.cq, s.cq, o); s.err != nil {
		return s
	}
	t.Cleanup(func() { must(t, s.qp.Close()) })
	if o.Type == ibv.RawPacket {
		must(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1}, ibv.MaskState|ibv.MaskPort))
		must(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
		must(t, s.qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
		return s
	}
	at, err := s.qp.Endpoint(rxe.Port, rxe.GID)
	must(t, err)
	must(t, s.qp.Connect(at, nil))
	_, err = s.qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{s.mr.SGE(2048, 256)}}})
	must(t, err)
	s.mw, err = h.pd.AllocMW(ibv.MWType2)
	must(t, err)
	t.Cleanup(func() { must(t, s.mw.Close()) })
	if k.Fields&work.MkeyChange != 0 {
		s.key, err = mlx5dv.CreateMkey(h.pd, nil)
		must(t, err)
		t.Cleanup(func() { must(t, s.key.Close()) })
	}
	return s
}

// request returns a work request that has all fields of a kind.
func (s *kindSide) request(op ibv.Opcode, k *work.Kind) ibv.SendWR {
	wr := ibv.SendWR{ID: 5, Opcode: op, Flags: ibv.Signaled, Remote: s.mr.Remote().At(1024), Imm: 7, CompareAdd: 1,
		Swap: 2, SGEs: []ibv.SGE{s.mr.SGE(0, 8)}}
	switch {
	case k.Fields&work.Data == 0 && k.Fields&work.Copy == 0:
		wr.SGEs = nil
	case k.Fields&work.Copy != 0:
		wr.SGEs = append(wr.SGEs, s.mr.SGE(8, 8))
	case k.Fields&work.TSO != 0:
		wr.SGEs = []ibv.SGE{s.mr.SGE(0, 1000)}
	}
	switch {
	case k.Fields&work.InvalidateRKey != 0:
		s.bind()
		wr.InvalidateRKey = s.mw.RKey()
	case k.Fields&work.Window != 0:
		wr.Bind = s.binding()
	case k.Fields&work.Flush != 0:
		wr.Flush = &ibv.FlushRange{Type: ibv.FlushToMemory, Length: 8}
	case k.Fields&work.Value != 0:
		wr.Inline = make([]byte, 8)
	case k.Fields&work.TSO != 0:
		wr.TSO = &ibv.TSO{Header: tcpHeader(), MSS: 500}
	case k.Fields&work.Masked != 0:
		wr.Masked = &ibv.MaskedAtomic{}
	case k.Fields&work.MkeyChange != 0:
		change, err := s.key.Change(&mlx5dv.MkeyConfig{Access: ibv.LocalWrite, List: []ibv.SGE{s.mr.SGE(0, 64)}})
		must(s.T, err)
		wr.Mkey = change
	case k.Fields&work.WholeWQE != 0:
		wr = mlx5dv.RawWQE(5, s.nop())
	}
	return wr
}

// tcpHeader returns the headers of Ethernet, IPv4 and TCP.
func tcpHeader() []byte {
	h := make([]byte, 14+20+20)
	h[12], h[14], h[23], h[46] = 0x08, 0x45, 6, 5<<4
	return h
}

// nop returns a WQE that only completes.
func (s *kindSide) nop() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(mlx5dv.OpNop))
	b = binary.BigEndian.AppendUint32(b, s.qp.Num()<<8|1)
	return append(b, 0, 0, 0, byte(mlx5dv.WQESignaled), 0, 0, 0, 0)
}

func (s *kindSide) binding() *ibv.BindMW {
	return &ibv.BindMW{MW: s.mw, RKey: ibv.NextRKey(s.mw.RKey()), MR: s.mr, Addr: s.mr.Addr(), Length: 64,
		Access: ibv.RemoteRead}
}

// bind binds the window, so that its key can be invalidated.
func (s *kindSide) bind() {
	_, err := s.qp.PostSend([]ibv.SendWR{{ID: 4, Opcode: ibv.OpBindMW, Flags: ibv.Signaled, Bind: s.binding()}})
	must(s.T, err)
	if wc := s.sent(); wc.Status != ibv.WCSuccess {
		s.Fatalf("bind: %+v", wc)
	}
}

// sent waits for the completion of a send.
func (s *kindSide) sent() ibv.WC {
	wcs := make([]ibv.WC, 1)
	for {
		_, err := s.cq.Wait(s.Context(), wcs)
		must(s.T, err)
		if !wcs[0].Opcode.IsRecv() {
			return wcs[0]
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The lists of kinds agree: the table of package work, docs/adding-a-verb.md, the methods of Batch, and opcodes.
func TestKinds(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "adding-a-verb.md"))
	must(t, err)
	const head = "| kind | file in `ibv` | method of Batch | engines |\n|---|---|---|---|\n"
	_, rest, found := strings.Cut(string(text), head)
	if !found {
		t.Fatal("docs/adding-a-verb.md has no table of kinds")
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	listed := make(map[string][]string)
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		listed[cells[0]] = cells
	}
	methods := map[string]bool{"Len": true, "Reset": true, "Post": true, "Add": true, "ToSRQ": true, "ToDCT": true,
		"OnStream": true, "SendTo": true, "SendImmTo": true, "SendInline": true, "WriteInline": true}
	batch := reflect.TypeFor[*ibv.Batch]()
	for op := range ibv.Opcode(len(work.Kinds)) {
		k := &work.Kinds[op]
		if k.Name == "" {
			continue
		}
		if op.String() != k.Name {
			t.Errorf("%v is %s in the table", op, k.Name)
		}
		if !slices.Contains(opcodes, op) {
			t.Errorf("opcodes lacks %v", op)
		}
		method, engines := "Add", []string{}
		if _, has := batch.MethodByName(k.Name); has {
			method, methods[k.Name] = k.Name, true
		}
		for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect} {
			if impossible(k, path) == "" {
				engines = append(engines, strings.ToLower(path.String()))
			}
		}
		cells := listed["Op"+k.Name]
		if len(cells) != 4 || cells[2] != method || cells[3] != strings.Join(engines, ", ") {
			t.Errorf("docs/adding-a-verb.md has %q for Op%s, want %s, engines %v", cells, k.Name, method, engines)
			continue
		}
		delete(listed, "Op"+k.Name)
		src, err := os.ReadFile(filepath.Join(root, "ibv", cells[1]))
		must(t, err)
		want := fmt.Sprintf("Op%s Opcode = %d", k.Name, op)
		if code := strings.Join(strings.Fields(string(src)), " "); !strings.Contains(code, want) {
			t.Errorf("ibv/%s does not declare Op%s", cells[1], k.Name)
		}
	}
	for name := range listed {
		t.Errorf("docs/adding-a-verb.md has %s, which is no kind", name)
	}
	for i := range batch.NumMethod() {
		if name := batch.Method(i).Name; !methods[name] {
			t.Errorf("Batch.%s is of no kind", name)
		}
	}
}
