//go:build linux

package posts

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

// wireEnv is the environment variable with the file in which a run records what it posts, for package wire.
const wireEnv = "PUREVERBS_POSTS_WIRE"

func TestMain(m *testing.M) { emulated.Main(m) }

// table is a run of the test.
type table struct {
	*testing.T
	rxe   testutil.RXE
	hosts [2]*host
	anyAH *ibv.AH
	noise []byte
	texts map[textKey]string

	recording bool
	posted    *json.Encoder

	cells, refused, completions, renewed, failures int
	explained                                      [len(explanations)]int
}

// textKey identifies an error: the row, the kind of QP, and the number of good work requests before it.
type textKey struct {
	row
	kind
	index int
}

// The differences that are allowed between the data paths. Each must occur.
const (
	extendedImm = iota
	sendOpsText
)

var explanations = [...]string{
	extendedImm: "WithImm of a send that completed, where it means nothing: libmlx5's poll_cq sets it, its " +
		"read_wc_flags does not",
	sendOpsText: "an opcode that the QP does not take: with QPOptions.SendOps the error names them",
}

func (t *table) explain(i int) { t.explained[i]++ }

// record makes the table record what it posts, if package wire asks for it. It reports whether it does.
func (t *table) record() bool {
	name := os.Getenv(wireEnv)
	if name == "" {
		return false
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	t.must(err)
	t.Cleanup(func() { t.must(f.Close()) })
	t.posted, t.recording = json.NewEncoder(f), true
	return true
}

func (t *table) wire(dev *ibv.Device, qp *ibv.QP, cell string, w *wqe) {
	w.Device, w.QP, w.Cell = dev.Name(), fmt.Sprintf("%#x", qp.Num()), cell
	t.must(t.posted.Encode(w))
}

// TestRXE_Posts compares all ways to post with one another, with the model, and the data paths with each other.
func TestRXE_Posts(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("compares the two data paths: runs on the emulated device only")
	}
	tab := newTable(t, rxe)
	defer tab.close()
	salt := os.Getenv(ibv.DataPathEnv) // other rows in the tier's other run
	if tab.record() {
		salt = "wire"
	}
	pairs := make(map[ibv.QPType][][]*pair) // by transport and kind, one for each of engines
	for _, typ := range []ibv.QPType{ibv.RC, ibv.UC, ibv.UD, ibv.XRCSend, ibv.DCI} {
		for _, k := range allKinds {
			var each []*pair
			for _, e := range engines {
				p, err := tab.newPair(e, typ, k)
				tab.must(err)
				defer func() { tab.must(p.close()) }()
				each = append(each, p)
			}
			// The same with extended CQs, on one kind: they complete alike.
			if k == allKinds[2] && (typ == ibv.RC || typ == ibv.UD) && os.Getenv(wireEnv) == "" {
				for _, e := range engines {
					p, err := tab.newPairWith(e, typ, k, ibv.FieldsStandard|ibv.FieldTimestamp|ibv.FieldFlowTag)
					tab.must(err)
					defer func() { tab.must(p.close()) }()
					each = append(each, p)
				}
			}
			pairs[typ] = append(pairs[typ], each)
		}
	}
	full := os.Getenv("PUREVERBS_FULL") != ""
	rows := trials(full, salt)
	texts := 0
	for i, tr := range rows {
		if i%10_000 == 9999 { // who is silent for long is ended
			t.Logf("%d of %d rows", i+1, len(rows))
		}
		texts += len(tab.texts)
		clear(tab.texts)
		for _, m := range manners {
			for _, alone := range []bool{true, false} {
				var at []*pair
				for k := range allKinds {
					for _, p := range pairs[tr.typ][k] {
						// A quick run posts one row in three by ibv_wr_* too.
						if tr.kinds>>k&1 != 0 && (full || !p.engine.extended || (tr.hash(salt)>>4+uint32(k))%3 == 0) {
							at = append(at, p)
						}
					}
				}
				tab.cell(at, tr.row, m, alone)
				if tab.failures >= 10 {
					t.Fatal("that is enough")
				}
			}
		}
	}
	for _, of := range pairs {
		for _, each := range of {
			tab.finish(each)
		}
	}
	for i, n := range tab.explained {
		t.Logf("%d times: %s", n, explanations[i])
		if n == 0 && !(tab.recording && i == extendedImm) { // what is recorded has no extended CQs
			t.Error("that did not happen: it explains nothing")
		}
	}
	t.Logf("%d rows, %d cells, %d refused; %d errors of posting, %d completions, %d times connected again", len(rows),
		tab.cells, tab.refused, texts, tab.completions, tab.renewed)
	if tab.cells < 80_000 || tab.cells-tab.refused < 15_000 || tab.completions < 120_000 {
		t.Error("that is too little: nothing was tested")
	}
}

// newTable opens the two devices.
func newTable(t *testing.T, rxe testutil.RXE) *table {
	tab := &table{T: t, rxe: rxe, texts: make(map[textKey]string), noise: make([]byte, 8192)}
	r := rand.New(rand.NewPCG(3, 4))
	for i := range tab.noise {
		tab.noise[i] = byte(r.Uint32())
	}
	var err error
	tab.hosts, err = openHosts(rxe)
	tab.must(err)
	gid, err := tab.hosts[1].dev.QueryGID(rxe.Port, rxe.GIDs[1])
	tab.must(err)
	tab.anyAH, err = tab.hosts[0].pd.CreateAH(&ibv.AHAttr{Port: rxe.Port, Global: true, DGID: gid,
		SGIDIndex: uint8(rxe.GIDs[0]), HopLimit: 1})
	tab.must(err)
	return tab
}

func (t *table) close() {
	t.must(t.anyAH.Close())
	for _, h := range t.hosts {
		t.must(h.close())
	}
}

func (t *table) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *table) fail(p *pair, err error) {
	t.Helper()
	t.failures++
	t.Errorf("%v: %s: %v", p, p.cell, err)
	// Go on from a known state.
	p.headers = p.headers[:0]
	p.b.recvs = nil
	if p.srq {
		t.Fatal("its SRQ cannot be emptied")
	}
	for _, e := range []*end{p.a, p.b} {
		e.image = slices.Clone(e.mr.Bytes())
	}
	if err := p.renew(); err != nil {
		t.Fatal(err)
	}
}

// cell posts a row in one manner on all pairs at once, and then compares the results.
func (t *table) cell(at []*pair, r row, m manner, alone bool) {
	var busy []*pair
	for _, p := range at {
		posted, err := p.start(r, m, alone)
		if err != nil {
			t.fail(p, err)
		} else if posted {
			busy = append(busy, p)
		}
	}
	t.finish(busy)
}

// finish lets pairs post one more work request each, and compares the results.
func (t *table) finish(ps []*pair) {
	var marked []*pair
	for _, p := range ps {
		if err := p.mark(); err != nil {
			t.fail(p, err)
		} else {
			marked = append(marked, p)
		}
	}
	for _, p := range marked {
		if err := p.end(); err != nil {
			t.fail(p, err)
		}
	}
}

// manner is a way to post.
type manner int

const (
	postSend manner = iota
	method          // the method of Batch that says it
	add             // Batch.Add
)

var manners = []manner{postSend, method, add}

func (m manner) String() string { return [...]string{"PostSend", "a Batch's method", "Batch.Add"}[m] }

// start posts a cell. It reports whether there is anything to wait for.
func (p *pair) start(r row, m manner, alone bool) (bool, error) {
	p.cell = fmt.Sprintf("%v by %v, alone %v", r, m, alone)
	cell := p.job(r)
	if cell.wr.Opcode == ibv.OpBindMW && testutil.Libraries() == "bullseye" {
		return false, nil // its libmlx5 cannot bind, so the data paths differ
	}
	if m == method && !p.method(nil, &cell.wr) {
		return false, nil
	}
	p.t.cells++
	p.shuffle()
	jobs := []*job{cell}
	if !alone {
		jobs = []*job{p.neighbour(r, 0), cell, p.neighbour(r, 1)}
	}
	n, err := p.post(jobs, m)
	accepted := len(jobs)
	for i, j := range jobs {
		ms := p.mistakes(j)
		if len(ms) == 0 {
			continue
		}
		if err == nil {
			return false, fmt.Errorf("it was posted, but is wrong: %+v", ms)
		}
		if bad := p.judge(r, err, ms, i, m, len(jobs)); bad != nil {
			return false, bad
		}
		if accepted = i; m != postSend {
			accepted = 0
		}
		p.t.refused++
		err = nil
		break
	}
	if err != nil || n != accepted {
		return false, fmt.Errorf("%d posted, want %d: %v", n, accepted, err)
	}
	if p.starts++; accepted > 0 && (testutil.Full() || p.starts%3 == 0) {
		if err := p.remembered(jobs[:accepted]); err != nil {
			return false, err
		}
	}
	for _, j := range jobs[:accepted] {
		p.execute(j)
	}
	for _, j := range jobs[:accepted] {
		if !j.copies() || j.wr.Inline != nil {
			continue
		}
		for _, s := range j.wr.SGEs { // its memory is free
			at := int(s.Addr - p.a.mr.Addr())
			for _, b := range [][]byte{p.a.image, p.a.mr.Bytes()} {
				for k := range b[at : at+int(s.Length)] {
					b[at+k] ^= 0xa5
				}
			}
		}
	}
	if accepted == 0 {
		// A good one after it. Not after each row, which would take too long.
		p.idle++
		return p.idle >= 16, nil
	}
	return true, nil
}

// job makes the work request of a row.
func (p *pair) job(r row) *job {
	id := p.nextID()
	j := &job{outside: r.remote == outside, badKey: r.remote == wrongKey, otherPD: r.way == otherPD,
		closed: r.way == closedAH}
	mem := p.b.mr.Remote()
	at := uint64(id % 16 * 8)
	j.wr = ibv.SendWR{
		ID: id, Opcode: r.op, Flags: r.flags, Remote: mem.At(at), Imm: 0x01020304 + uint32(id)<<8,
		InvalidateRKey: 0x55660077, RemoteSRQN: p.srqn,
		CompareAdd: uint64(id) * 0x0102030405060708, Swap: uint64(id) * 0x1716151413121110,
	}
	if r.op == ibv.OpCompareSwap && id%2 == 0 { // the comparison holds: the memory is shuffled by the id
		off := int(p.id*17+31) % 509
		j.wr.CompareAdd = binary.NativeEndian.Uint64(p.t.noise[off+int(at):])
	}
	if in(r.op, maskedOps) {
		j.wr.Masked = p.masked(id, at)
	}
	switch r.remote {
	case outside:
		j.wr.Remote = mem.At(sizeB + 1)
	case wrongKey:
		j.wr.Remote.RKey ^= 0x550000
	}
	switch {
	case r.op == ibv.OpBindMW:
		j.wr.Bind = p.bind(id)
	case r.op == ibv.OpLocalInv && p.window.bound && id%3 != 0:
		j.wr.InvalidateRKey = p.window.key
	}
	p.address(&j.wr, r.way)
	mr := p.a.mr
	top := p.a.qp.Cap().MaxInline
	noise := func(n int) []byte { return slices.Clone(p.t.noise[int(id%999):][:n]) }
	switch r.data {
	case one:
		j.wr.SGEs = []ibv.SGE{mr.SGE(101, 1)}
	case eight:
		j.wr.SGEs = []ibv.SGE{mr.SGE(64, 8)}
	case hundred:
		j.wr.SGEs = []ibv.SGE{mr.SGE(33, 100)}
	case zero:
		j.wr.SGEs = []ibv.SGE{mr.SGE(8, 0)}
	case two:
		j.wr.SGEs = []ibv.SGE{mr.SGE(300, 13), mr.SGE(200, 37)}
	case many:
		for i := range p.a.qp.Cap().MaxSendSGE + 1 {
			j.wr.SGEs = append(j.wr.SGEs, mr.SGE(i*4, 4))
		}
	case gib2:
		j.wr.SGEs = []ibv.SGE{{Addr: mr.Addr(), Length: 1 << 31, LKey: mr.LKey()}}
	case gib4:
		j.wr.SGEs = []ibv.SGE{{Addr: mr.Addr(), Length: 1<<32 - 1, LKey: mr.LKey()}}
	case late:
		j.wr.SGEs = []ibv.SGE{mr.SGE(64, 8), {Addr: mr.Addr(), Length: 1<<31 + 5, LKey: mr.LKey()}}
	case before:
		j.wr.SGEs, j.sge = []ibv.SGE{mr.SGE(-1, 8)}, "MR.SGE(-1, 8)"
	case beyond:
		j.wr.SGEs, j.sge = []ibv.SGE{mr.SGE(sizeA-3, 4)}, fmt.Sprintf("MR.SGE(%d, 4)", sizeA-3)
	case huge:
		j.wr.SGEs, j.sge = []ibv.SGE{mr.SGE(0, 1<<32)}, "MR.SGE(0, 4 GiB or more)"
	case inShort:
		j.wr.Inline = noise(5)
	case inBlock:
		n := 20 + int(id%32)
		if top >= 20 { // an XRCSend QP takes 44 bytes where others take none
			n = min(n, top)
		}
		j.wr.Inline = noise(n)
	case inLong:
		j.wr.Inline = noise(min(top, 150))
	case inTooLong:
		j.wr.Inline = noise(top + 1)
	case inEmpty:
		j.wr.Inline = []byte{}
	case both:
		j.wr.Inline, j.wr.SGEs = noise(5), []ibv.SGE{mr.SGE(64, 8)}
	}
	return j
}

// masked returns the operands of an atomic of 8 bytes at an offset of the peer's memory. For an even id the comparison
// holds: the memory is shuffled by the id.
func (p *pair) masked(id, at uint64) *ibv.MaskedAtomic {
	word := func(off uint64) uint64 { return binary.NativeEndian.Uint64(p.t.noise[off:]) }
	m := &ibv.MaskedAtomic{Size: uint32(id % 4 / 2 * 8)}
	m.SwapAdd[0], m.Mask[0] = word(id%1000), word(1000+id%1000)
	m.Compare[0], m.CompareMask[0] = word(2000+id%1000), word(3000+id%1000)
	if id%2 == 0 {
		m.Compare[0] ^= (m.Compare[0] ^ word((p.id*17+31)%509+at)) & m.CompareMask[0]
	}
	return m
}

// neighbour returns a good work request that is as similar to the row's as possible, so that both may be built in one
// run.
func (p *pair) neighbour(r row, i int) *job {
	if !r.known() || r.op == ibv.OpSendInv || r.op == ibv.OpLocalInv || r.op == ibv.OpBindMW {
		r.op = ibv.OpSend
	}
	id := p.nextID()
	j := &job{wr: ibv.SendWR{
		ID: id, Opcode: r.op, Flags: r.flags & 7, SGEs: []ibv.SGE{p.a.mr.SGE(400+i*16, 8)},
		Remote: p.b.mr.Remote().At(uint64(400 + i*16)),
		Imm:    0x11223344 + uint32(id), CompareAdd: 3, Swap: id, RemoteSRQN: p.srqn,
	}}
	if (r.data == inShort || r.data == inBlock || r.data == inLong) && in(r.op, inlineOps) &&
		p.a.qp.Cap().MaxInline >= 3 {
		j.wr.SGEs, j.wr.Inline = nil, slices.Clone(p.t.noise[id%100:][:3])
	}
	if in(r.op, maskedOps) {
		j.wr.Masked = p.masked(id, uint64(400+i*16))
	}
	if names(p.typ, j.wr.Opcode) {
		p.address(&j.wr, theAH)
	}
	return j
}

// post posts work requests in a manner, and returns how many were accepted. It overwrites data that was copied as soon
// as that is allowed.
func (p *pair) post(jobs []*job, m manner) (int, error) {
	wrs := make([]ibv.SendWR, len(jobs))
	for i, j := range jobs {
		wrs[i] = j.wr
		wrs[i].SGEs, wrs[i].Inline = slices.Clone(j.wr.SGEs), slices.Clone(j.wr.Inline)
	}
	spoil := func(wr *ibv.SendWR) {
		for k := range wr.Inline {
			wr.Inline[k] = 0xee
		}
		for k := range wr.SGEs {
			wr.SGEs[k] = ibv.SGE{Addr: 1, Length: 2, LKey: 3}
		}
		*wr = ibv.SendWR{ID: 1 << 50, Opcode: ibv.OpSend}
	}
	if m == postSend {
		n, err := p.a.qp.PostSend(wrs)
		for i := range wrs {
			spoil(&wrs[i])
		}
		return n, err
	}
	b := p.batch
	for i := range wrs {
		if m == add || !p.method(b, &wrs[i]) {
			b.Add(&wrs[i])
		}
		spoil(&wrs[i])
	}
	if b.Len() != len(jobs) {
		return 0, fmt.Errorf("the batch has %d work requests, want %d", b.Len(), len(jobs))
	}
	err := b.Post()
	n, left := len(jobs), 0
	if err != nil {
		var pe *ibv.PostError
		if !errors.As(err, &pe) || pe.Total != len(jobs) {
			return 0, fmt.Errorf("%T %v, want a *PostError of %d", err, err, len(jobs))
		}
		n, left = pe.Accepted, len(jobs)-pe.Accepted
	}
	if b.Len() != left {
		return n, fmt.Errorf("%d work requests are left in the batch, want %d; %v", b.Len(), left, err)
	}
	b.Reset()
	return n, err
}

// method adds a work request by its method of Batch, and reports whether there is one. With a nil Batch it only
// reports.
func (p *pair) method(b *ibv.Batch, wr *ibv.SendWR) bool {
	inline := wr.Inline != nil && len(wr.SGEs) == 0
	one := len(wr.SGEs) == 1 && wr.Inline == nil
	var s ibv.SGE
	if one {
		s = wr.SGEs[0]
	}
	var do func()
	ah := wr.AH
	if p.typ == ibv.DCI {
		ah = nil // ToDCT has it
	}
	switch op := wr.Opcode; {
	case op == ibv.OpSend && inline && ah == nil:
		do = func() { b.SendInline(wr.ID, wr.Flags, wr.Inline) }
	case op == ibv.OpWrite && inline && ah == nil:
		do = func() { b.WriteInline(wr.ID, wr.Flags, wr.Inline, wr.Remote) }
	case op == ibv.OpLocalInv && wr.Inline == nil && len(wr.SGEs) == 0 && ah == nil:
		do = func() { b.LocalInv(wr.ID, wr.Flags, wr.InvalidateRKey) }
	case op == ibv.OpBindMW && wr.Inline == nil && len(wr.SGEs) == 0 && ah == nil:
		do = func() { b.BindMW(wr.ID, wr.Flags, wr.Bind) }
	case !one:
	case op == ibv.OpSend && ah != nil:
		do = func() { b.SendTo(wr.ID, wr.Flags, s, wr.AH, wr.RemoteQPN, wr.RemoteQKey) }
	case op == ibv.OpSendImm && ah != nil:
		do = func() { b.SendImmTo(wr.ID, wr.Flags, s, wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey) }
	case ah != nil:
	case op == ibv.OpSend:
		do = func() { b.Send(wr.ID, wr.Flags, s) }
	case op == ibv.OpSendImm:
		do = func() { b.SendImm(wr.ID, wr.Flags, s, wr.Imm) }
	case op == ibv.OpSendInv:
		do = func() { b.SendInv(wr.ID, wr.Flags, s, wr.InvalidateRKey) }
	case op == ibv.OpWrite:
		do = func() { b.Write(wr.ID, wr.Flags, s, wr.Remote) }
	case op == ibv.OpWriteImm:
		do = func() { b.WriteImm(wr.ID, wr.Flags, s, wr.Remote, wr.Imm) }
	case op == ibv.OpRead:
		do = func() { b.Read(wr.ID, wr.Flags, s, wr.Remote) }
	case op == ibv.OpCompareSwap:
		do = func() { b.CompareSwap(wr.ID, wr.Flags, s, wr.Remote, wr.CompareAdd, wr.Swap) }
	case op == ibv.OpFetchAdd:
		do = func() { b.FetchAdd(wr.ID, wr.Flags, s, wr.Remote, wr.CompareAdd) }
	}
	if do != nil && b != nil {
		do()
		if p.typ == ibv.XRCSend {
			b.ToSRQ(wr.RemoteSRQN)
		}
		if p.typ == ibv.DCI && wr.AH != nil {
			b.ToDCT(wr.AH, wr.RemoteQPN, wr.DCKey)
		}
		if wr.DCStream != 0 {
			b.OnStream(wr.DCStream)
		}
	}
	return do != nil
}

// judge compares an error with the mistakes that it may report, and with the errors of the other manners and of the
// other data path.
func (p *pair) judge(r row, err error, ms []mistake, i int, m manner, total int) error {
	var (
		ae *ibv.ArgError
		le *ibv.LimitError
		oe *ibv.OpError
		ue *ibv.UnsupportedError
	)
	var inner error
	named := func(x mistake) bool {
		switch {
		case x.closed:
			if errors.Is(err, ibv.ErrClosed) && errors.As(err, &oe) {
				inner = &ibv.OpError{Op: "use ah", Object: "ah", Err: ibv.ErrClosed}
				return true
			}
		case x.unsupported:
			if errors.As(err, &ue) && ue.Feature == x.what && ue.Need != "" {
				inner = ue
				return errors.Is(err, ibv.ErrNotSupported)
			}
		case x.limited:
			if errors.As(err, &le) && *le == (ibv.LimitError{What: x.what, Asked: x.asked, Limit: x.limit,
				Where: le.Where}) {
				inner = le
				return errors.Is(err, syscall.EINVAL)
			}
		case errors.As(err, &ae) && ae.Arg == x.what && (x.got == "" || ae.Got == x.got):
			inner = ae
			return errors.Is(err, syscall.EINVAL) && ae.Want != ""
		}
		return false
	}
	if !slices.ContainsFunc(ms, named) {
		return fmt.Errorf("refused with %T %v, want one of %+v", err, err, ms)
	}
	// The text of the error.
	text := err.Error()
	if !slices.ContainsFunc(ms, func(x mistake) bool { return x.closed }) {
		what := fmt.Sprintf("work request %d", i)
		name := strings.TrimPrefix(p.a.qp.String(), "qp of ")
		want := fmt.Sprintf("post send %s: %s: %v", name, what, inner)
		if m != postSend {
			want = fmt.Sprintf("post batch %s: 0 of %d work requests posted: %s: %v", name, total, what, inner)
		}
		if text != want {
			return fmt.Errorf("the error is\n%s, want\n%s", text, want)
		}
	}
	if ue != nil && inner == ue && in(r.op, maskedOps) {
		return nil // it says what the QP is
	}
	return p.sameText(r, i, inner.Error())
}

// sameText compares the text with earlier texts of the same error.
func (p *pair) sameText(r row, index int, text string) error {
	name := strings.TrimPrefix(p.a.qp.String(), "qp of ")
	text = strings.ReplaceAll(text, name, "QP")
	text = strings.ReplaceAll(text, fmt.Sprintf("%#x", p.b.mr.Addr()+sizeB+1), "ADDRESS")
	text = strings.ReplaceAll(text, fmt.Sprint(p.b.qp.Num()|1<<24), "QPN")
	key := textKey{r, p.kind, index}
	if named := " that is in its QPOptions.SendOps"; strings.Contains(text, named) {
		p.t.explain(sendOpsText)
		text = strings.ReplaceAll(text, named, "")
	}
	if before, ok := p.t.texts[key]; ok && before != text {
		return fmt.Errorf("the error is told as\n%s, elsewhere as\n%s", text, before)
	}
	p.t.texts[key] = text
	return nil
}
