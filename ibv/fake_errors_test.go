package ibv

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

func failing(t testing.TB, fn string, e syscall.Errno) {
	t.Helper()
	set(t, "fail."+fn, int(e))
}

func TestFake_NoDevice(t *testing.T) {
	leavesNothing(t)
	t.Setenv("SYSFS_PATH", t.TempDir()) // this host may have devices
	for _, e := range []syscall.Errno{syscall.ENOSYS, syscall.ENOENT, syscall.ENODEV} {
		failing(t, "ibv_get_device_list", e)
		devs, err := Devices()
		if err != nil || len(devs) != 0 {
			t.Errorf("%v: devices %v, %v", e, devs, err)
		}
		_, err = Open("")
		wantErr(t, err, ErrNoDevice, "no RDMA device")
	}
	failing(t, "ibv_get_device_list", syscall.ENOMEM)
	_, err := Devices()
	wantErr(t, err, syscall.ENOMEM, "list devices")
	unset(t, "fail.ibv_get_device_list")

	set(t, "devices", 0)
	if devs, err := Devices(); err != nil || len(devs) != 0 {
		t.Errorf("devices %v, %v", devs, err)
	}
	for _, open := range []func() (*Device, error){
		func() (*Device, error) { return Open("") },
		func() (*Device, error) { return Open("mlx5_0") },
		func() (*Device, error) { return OpenIndex(0) },
		func() (*Device, error) { return OpenGUID(1) },
	} {
		_, err := open()
		wantErr(t, err, ErrNoDevice)
	}
	unset(t, "devices")
	set(t, "port.state", int(PortDown))
	_, err = Open("")
	wantErr(t, err, ErrNoDevice, "fake0", "fake1", "Down")
}

func TestFake_OpenRefused(t *testing.T) {
	leavesNothing(t)
	for _, e := range []syscall.Errno{syscall.EACCES, syscall.EPERM} {
		failing(t, "ibv_open_device", e)
		_, err := Open("fake1")
		var pe *PermissionError
		if !errors.As(err, &pe) || !strings.Contains(pe.Path, "/dev/infiniband/uverbs") {
			t.Errorf("%v: %v", e, err)
		}
		wantErr(t, err, e, "fake1", "permission")
		_, err = Open("")
		wantErr(t, err, e, "permission")
		wantErr(t, err, ErrNoDevice)
	}
	// NULL without an errno, as some providers answer.
	failing(t, "ibv_open_device", 0)
	_, err := Open("fake0")
	wantErr(t, err, syscall.EINVAL, "open device fake0")
	unset(t, "fail.ibv_open_device")

	set(t, "unextended", 1)
	_, err = Open("fake0")
	wantErr(t, err, ErrNotSupported, "v15")
	unset(t, "unextended")
	failing(t, "ibv_query_device", syscall.EIO)
	failing(t, "query_device_ex", syscall.EIO)
	_, err = Open("fake0")
	wantErr(t, err, syscall.EIO)
}

// Where the provider lacks the extended query, the plain one serves.
func TestFake_PlainQueries(t *testing.T) {
	for _, e := range []syscall.Errno{syscall.EOPNOTSUPP, syscall.ENOSYS} {
		failing(t, "query_device_ex", e)
		d := closing(t, must(Open("fake0"))(t))
		if a := must(d.QueryDevice())(t); a.Ex != nil || a.MaxQPWR != 4096 {
			t.Errorf("device %+v", a)
		}
	}
}

// Every call reports the errno of a failure, and a NULL without one is EINVAL.
func TestFake_ErrnoOfEachCall(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	ah := closing(t, must(s.pd.CreateAH(&AHAttr{Port: 1}))(t))
	ch := closing(t, must(s.dev.CreateCompChannel())(t))
	idle := closing(t, must(s.pd.CreateQP(s.cq, s.cq, nil))(t))
	mr := closing(t, must(s.pd.AllocMR(4096, LocalWrite, nil))(t))
	cq := closing(t, must(s.dev.CreateCQ(8, nil))(t))
	pd := closing(t, must(s.dev.AllocPD())(t))
	discard := func(_ any, err error) error { return err }
	access := LocalWrite
	for _, c := range []struct {
		fn      string
		pointer bool
		call    func() error
	}{
		{"ibv_alloc_pd", true, func() error { return discard(s.dev.AllocPD()) }},
		{"ibv_reg_mr", true, func() error { return discard(s.pd.AllocMR(64, LocalWrite, nil)) }},
		{"ibv_reg_mr", true, func() error { return discard(s.pd.RegMR(make([]byte, 64), LocalWrite)) }},
		{"ibv_reg_mr_iova2", true, func() error { return discard(s.pd.AllocMR(64, RelaxedOrdering, nil)) }},
		{"ibv_create_comp_channel", true, func() error { return discard(s.dev.CreateCompChannel()) }},
		{"ibv_create_cq", true, func() error { return discard(s.dev.CreateCQ(8, nil)) }},
		{"ibv_create_qp", true, func() error { return discard(s.pd.CreateQP(s.cq, s.cq, nil)) }},
		{"ibv_create_srq", true, func() error { return discard(s.pd.CreateSRQ(nil)) }},
		{"ibv_create_ah", true, func() error { return discard(s.pd.CreateAH(&AHAttr{Port: 1})) }},
		{"query_port", false, func() error { return discard(s.dev.QueryPort(1)) }},
		{"ibv_query_gid", false, func() error { return discard(s.dev.QueryGID(1, 0)) }},
		{"_ibv_query_gid_ex", false, func() error { return discard(s.dev.QueryGIDEntry(1, 0)) }},
		{"_ibv_query_gid_table", false, func() error { return discard(s.dev.GIDTable()) }},
		{"ibv_query_pkey", false, func() error { return discard(s.dev.QueryPKey(1, 0)) }},
		{"ibv_resize_cq", false, func() error { return s.cq.Resize(1000) }},
		{"ibv_modify_qp", false, func() error { return idle.Modify(&QPAttr{State: StateErr}, MaskState) }},
		{"ibv_query_qp", false, func() error { _, err := idle.Query(MaskState); return err }},
		{"ibv_modify_srq", false, func() error { return srq.SetLimit(1) }},
		{"ibv_query_srq", false, func() error { return discard(srq.Query()) }},
		{"ibv_rereg_mr", false, func() error { return mr.Rereg(&ReregOptions{Access: &access}) }},
		{"ibv_attach_mcast", false, func() error { return idle.AttachMcast(GID{0xff}, 0) }},
		{"ibv_detach_mcast", false, func() error { return idle.DetachMcast(GID{0xff}, 0) }},
		{"ibv_destroy_qp", false, idle.Close},
		{"ibv_destroy_srq", false, srq.Close},
		{"ibv_destroy_ah", false, ah.Close},
		{"ibv_destroy_comp_channel", false, ch.Close},
		{"ibv_dereg_mr", false, mr.Close},
		{"ibv_destroy_cq", false, cq.Close},
		{"ibv_dealloc_pd", false, pd.Close},
	} {
		t.Run(c.fn, func(t *testing.T) {
			before := live(t)
			failing(t, c.fn, syscall.EIO)
			wantErr(t, c.call(), syscall.EIO)
			if c.pointer {
				failing(t, c.fn, 0)
				wantErr(t, c.call(), syscall.EINVAL)
			}
			unset(t, "fail."+c.fn)
			if after := live(t); after != before {
				t.Errorf("%d objects after the failure, %d before", after, before)
			}
		})
	}
	// Nothing that failed to close is closed.
	ok(t, ah.Close())
	ok(t, ah.Close())
	failing(t, "ibv_destroy_qp", syscall.EBUSY)
	wantErr(t, s.qp.Close(), syscall.EBUSY)
	unset(t, "fail.ibv_destroy_qp")
	post(t, s.qp, write(s, 1, Signaled))
	s.good(t, 1)
}

// A call that reports what is negative as an errno, and one that is not there.
func TestFake_NegativeErrno(t *testing.T) {
	s := fakeSide(t, nil)
	set(t, "fail.ibv_resize_cq", -int(syscall.ENOMEM))
	wantErr(t, s.cq.Resize(1000), syscall.ENOMEM)
	set(t, "fail._ibv_query_gid_table", int(syscall.EOPNOTSUPP))
	if table := must(s.dev.GIDTable())(t); len(table) != 4 {
		t.Errorf("%d entries one by one", len(table))
	}
	set(t, "fail._ibv_query_gid_ex", int(syscall.EOPNOTSUPP))
	if e := must(s.dev.QueryGIDEntry(1, 1))(t); e.GID.Addr().String() != "10.8.0.1" {
		t.Errorf("entry %+v", e)
	}
}

func TestFake_Limits(t *testing.T) {
	s := fakeSide(t, nil)
	limit := func(err error, what string, asked, most uint64) {
		t.Helper()
		var le *LimitError
		if !errors.As(err, &le) || le.What != what || le.Asked != asked || le.Limit != most {
			t.Errorf("%v, want %s %d of %d", err, what, asked, most)
			return
		}
		wantErr(t, err, syscall.EINVAL, fmt.Sprint(asked), fmt.Sprint(most))
	}
	for _, c := range []struct {
		opt         QPOptions
		what        string
		asked, most uint64
	}{
		{QPOptions{MaxSendWR: 4097}, "max_send_wr", 4097, 4096},
		{QPOptions{MaxRecvWR: 1 << 20}, "max_recv_wr", 1 << 20, 4096},
		{QPOptions{MaxSendSGE: 17}, "max_send_sge", 17, 16},
		{QPOptions{MaxRecvSGE: 100}, "max_recv_sge", 100, 16},
		{QPOptions{MaxInline: 4096}, "max_inline_data", 4096, 512},
	} {
		_, err := s.pd.CreateQP(s.cq, s.cq, &c.opt)
		limit(err, c.what, c.asked, c.most)
	}
	_, err := s.dev.CreateCQ(65537, nil)
	limit(err, "cqe", 65537, 65536)
	_, err = s.dev.CreateCQ(8, &CQOptions{CompVector: 2})
	limit(err, "comp_vector", 2, 1)
	_, err = s.pd.CreateSRQ(&SRQOptions{MaxWR: 5000})
	limit(err, "max_wr", 5000, 4096)
	for _, cqe := range []int{0, -1} {
		_, err = s.dev.CreateCQ(cqe, nil)
		wantErr(t, err, syscall.EINVAL, "cqe", "65536")
	}
	for _, o := range []QPOptions{{MaxSendWR: -2}, {MaxRecvSGE: -5}} {
		_, err = s.pd.CreateQP(s.cq, s.cq, &o)
		wantErr(t, err, syscall.EINVAL)
	}
	_, err = s.pd.CreateQP(nil, nil, nil)
	wantErr(t, err, syscall.EINVAL, "send CQ", "recv CQ")
	_, err = s.pd.CreateQP(s.cq, s.cq, &QPOptions{Type: QPType(77)})
	wantErr(t, err, ErrNotSupported, "QPType(77)")
	_, err = s.pd.CreateAH(&AHAttr{Port: 3})
	wantErr(t, err, syscall.EINVAL, "1 to 2")
	_, err = s.pd.CreateAH(nil)
	wantErr(t, err, syscall.EINVAL)
	for _, p := range []uint8{0, 3, 255} {
		_, err = s.dev.QueryPort(p)
		wantErr(t, err, syscall.EINVAL, "1 to 2")
	}
}

func TestFake_BadMemory(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.pd.RegMR(nil, LocalWrite)
	wantErr(t, err, syscall.EINVAL, "nil")
	_, err = s.pd.RegMR([]byte{}, LocalWrite)
	wantErr(t, err, syscall.EINVAL, "0 bytes")
	_, err = s.pd.AllocMR(0, LocalWrite, nil)
	wantErr(t, err, syscall.EINVAL, "at least 1 byte")
	_, err = s.pd.AllocMR(math.MinInt, LocalWrite, nil)
	wantErr(t, err, syscall.EINVAL)
	_, err = s.pd.AllocMR(math.MaxInt, LocalWrite, nil)
	wantErr(t, err, nil)
	_, err = s.pd.RegMemory(0x1000, 0, 0, LocalWrite)
	wantErr(t, err, syscall.EINVAL)
	_, err = s.pd.AllocMR(64, RemoteWrite, nil)
	wantErr(t, err, syscall.EINVAL, "LocalWrite")
	failing(t, "ibv_reg_mr", syscall.ENOMEM)
	_, err = s.pd.AllocMR(1<<20, LocalWrite, nil)
	var me *MemlockError
	if !errors.As(err, &me) || me.Bytes != 1<<20 {
		t.Errorf("registration beyond the limit: %v", err)
	}
	failing(t, "ibv_reg_mr", syscall.EFAULT)
	_, err = s.pd.AllocMR(64, LocalWrite, nil)
	wantErr(t, err, syscall.EFAULT, "not mapped")
	access := LocalWrite
	for code := -1; code >= -6; code-- {
		failing(t, "ibv_rereg_mr", syscall.EINVAL)
		set(t, "rereg.code", code)
		wantErr(t, s.mr.Rereg(&ReregOptions{Access: &access}), syscall.EINVAL)
	}
	failing(t, "ibv_rereg_mr", syscall.EOPNOTSUPP)
	wantErr(t, s.mr.Rereg(&ReregOptions{Access: &access}), ErrNotSupported, "unchanged")

	// A Go slice whose last reference is the MR must survive the collector.
	unset(t, "fail.ibv_reg_mr")
	mr := closing(t, must(s.pd.RegMR(make([]byte, 4096), LocalWrite|RemoteWrite))(t))
	qp := s.newQP(t, &QPOptions{MaxInline: 8})
	ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
	post(t, qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, Inline: []byte("pinned"), Remote: mr.Remote().At(4000)})
	s.good(t, 1)
	if got := string(mr.Bytes()[4000:4006]); got != "pinned" {
		t.Errorf("the slice holds %q", got)
	}
}

func TestFake_ModifyRefused(t *testing.T) {
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	err := qp.Modify(&QPAttr{State: StateRTS}, MaskState)
	var me *ModifyError
	if !errors.As(err, &me) || me.From != StateReset || me.To != StateRTS || me.Legal {
		t.Errorf("RESET to RTS: %v", err)
	}
	failing(t, "ibv_modify_qp", syscall.EINVAL)
	err = qp.Modify(&QPAttr{State: StateInit, Port: 1}, MaskState|MaskPort|MaskQKey)
	if !errors.As(err, &me) || me.Missing != MaskPKeyIndex|MaskAccessFlags || me.Superfluous != MaskQKey ||
		me.Errno != syscall.EINVAL {
		t.Errorf("RESET to INIT: %v", err)
	}
	wantErr(t, err, syscall.EINVAL, "missing", "superfluous")
	ep := must(qp.Endpoint(1, 1))(t)
	failing(t, "ibv_modify_qp", syscall.EPERM)
	wantErr(t, qp.Connect(ep, nil), syscall.EPERM, "to INIT")
	unset(t, "fail.ibv_modify_qp")

	// At RTR the way to the peer is at fault.
	ok(t, qp.Init(nil))
	for _, e := range []syscall.Errno{syscall.ETIMEDOUT, syscall.ENETUNREACH} {
		failing(t, "ibv_modify_qp", e)
		peer := Endpoint{Type: RC, QPN: 0x99, GID: must(ParseGID("::ffff:10.8.0.77"))(t), MTU: MTU1024}
		err = qp.Connect(peer, nil)
		var pe *PathError
		if !errors.As(err, &pe) || pe.SGIDIndex != 1 || pe.Local.Addr().String() != "10.8.0.1" || pe.Errno != e {
			t.Errorf("%v at RTR: %v", e, err)
		}
		wantErr(t, err, e, "10.8.0.1", "10.8.0.77", "index 1")
	}
	unset(t, "fail.ibv_modify_qp")
	wantErr(t, qp.Connect(Endpoint{QPN: 1 << 24}, nil), nil, "peer")
	wantErr(t, qp.Modify(nil, 0), syscall.EINVAL)
	_, err = qp.Endpoint(1, 8)
	wantErr(t, err, syscall.EINVAL, "gid index")
	_, err = qp.Endpoint(1, 5)
	wantErr(t, err, syscall.EINVAL, "empty")
	_, err = qp.Endpoint(9, 0)
	wantErr(t, err, syscall.EINVAL, "port")
}

func TestFake_WrongState(t *testing.T) {
	s := fakeSide(t, nil)
	qp := s.newQP(t, nil)
	var se *StateError
	if n, err := qp.PostSend([]SendWR{write(s, 1, 0)}); n != 0 || !errors.As(err, &se) || se.State != StateReset {
		t.Errorf("send in RESET: %d, %v", n, err)
	}
	if n, err := qp.PostRecv([]RecvWR{{}}); n != 0 || !errors.As(err, &se) || se.State != StateReset {
		t.Errorf("receive in RESET: %d, %v", n, err)
	}
	b := qp.Batch()
	b.Write(1, 0, s.mr.SGE(0, 1), s.mr.Remote().At(0))
	if err := b.Post(); !errors.As(err, &se) {
		t.Errorf("batch in RESET: %v", err)
	}
	wantErr(t, qp.Connect(Endpoint{}, nil), nil, "Endpoint")
	ep := must(qp.Endpoint(1, 1))(t)
	ok(t, qp.Init(nil))
	recv(t, qp, RecvWR{ID: 1})
	if _, err := qp.PostSend([]SendWR{write(s, 1, 0)}); !errors.As(err, &se) || se.State != StateInit {
		t.Errorf("send in INIT: %v", err)
	}
	ok(t, qp.Connect(ep, nil))
	if err := qp.Connect(ep, nil); !errors.As(err, &se) || se.State != StateRTS {
		t.Errorf("connect twice: %v", err)
	}
	ok(t, qp.Modify(&QPAttr{State: StateErr}, MaskState))
	if wc := s.next(t); wc.ID != 1 || wc.Status != WCWRFlushErr {
		t.Errorf("completion %+v", wc)
	}
	post(t, qp, write(s, 2, 0)) // flushed by the device, not refused
	if wc := s.next(t); wc.ID != 2 || wc.Status != WCWRFlushErr {
		t.Errorf("completion %+v", wc)
	}
}

func TestFake_PartialPost(t *testing.T) {
	s := fakeLoop(t, nil, &QPOptions{MaxSendSGE: 2, MaxInline: 16})
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	wrs := make([]SendWR, 8)
	rwrs := make([]RecvWR, 8)
	for i := range wrs {
		wrs[i] = write(s, uint64(i), Signaled)
		rwrs[i] = RecvWR{ID: uint64(100 + i)}
	}
	posts := []struct {
		name string
		post func() (int, error)
		wcs  bool
	}{
		{"send", func() (int, error) { return s.qp.PostSend(wrs) }, true},
		{"recv", func() (int, error) { return s.qp.PostRecv(rwrs) }, false},
		{"srq", func() (int, error) { return srq.PostRecv(rwrs) }, false},
		{"batch", func() (int, error) {
			b := s.qp.Batch()
			for i := range wrs {
				b.Add(&wrs[i])
			}
			err := b.Post()
			var pe *PostError
			if errors.As(err, &pe) {
				return pe.Accepted, err
			}
			return 0, err
		}, true},
	}
	for _, p := range posts {
		for _, c := range []struct {
			at, errno, want int
			cause           error
		}{
			{1, int(syscall.EIO), 0, syscall.EIO},
			{4, int(syscall.ENOMEM), 3, ErrQueueFull},
			{8, int(syscall.EINVAL), 7, syscall.EINVAL},
			{3, -int(syscall.EINVAL), 2, syscall.EINVAL}, // a provider that negates
			{3, -int(syscall.ENOMEM), 2, ErrQueueFull},
			{2, int(syscall.EOPNOTSUPP), 1, ErrNotSupported},
		} {
			set(t, "post.at", c.at)
			set(t, "post.errno", c.errno)
			n, err := p.post()
			if n != c.want {
				t.Errorf("%s: work request %d refused, %d taken: %v", p.name, c.at, n, err)
			}
			wantErr(t, err, c.cause)
			if got := drain(t, s.cq); p.wcs && got != c.want {
				t.Errorf("%s: %d completions of %d", p.name, got, c.want)
			}
		}
		// A provider that fails and names none.
		set(t, "post.nobad", 1)
		if n, err := p.post(); n != 0 || err == nil {
			t.Errorf("%s: %d taken by a provider that does not tell: %v", p.name, n, err)
		}
		drain(t, s.cq)
		unset(t, "post.nobad")
		unset(t, "post.at")
	}

	// What is wrong with a request is found before the call; those before it go out.
	for _, c := range []struct {
		wr   SendWR
		word string
	}{
		{SendWR{Opcode: OpWrite, SGEs: make([]SGE, 3)}, "sge 3"},
		{SendWR{Opcode: OpWrite, Inline: make([]byte, 17)}, "inline bytes 17"},
		{SendWR{Opcode: OpWrite, Flags: Inline, SGEs: []SGE{s.mr.SGE(0, 9), s.mr.SGE(9, 8)}}, "inline bytes 17"},
		{SendWR{Opcode: OpWrite, Inline: []byte{1}, SGEs: make([]SGE, 1)}, "both"},
		{SendWR{Opcode: Opcode(42)}, "Opcode(42)"},
		{SendWR{Opcode: OpSend, AH: &AH{}}, "AH"},
	} {
		n, err := s.qp.PostSend([]SendWR{write(s, 1, Signaled), c.wr, write(s, 3, Signaled)})
		if n != 1 {
			t.Errorf("%d taken before %v", n, err)
		}
		wantErr(t, err, syscall.EINVAL, c.word, "work request 1")
		if got := drain(t, s.cq); got != 1 {
			t.Errorf("%d completions", got)
		}
		b := s.qp.Batch()
		b.Add(&wrs[0])
		b.Add(&c.wr)
		wantErr(t, b.Post(), syscall.EINVAL, c.word, "work request 1")
		if got := drain(t, s.cq); got != 0 {
			t.Errorf("%d completions of a batch with a mistake", got)
		}
	}
	if n, err := s.qp.PostRecv([]RecvWR{{ID: 1}, {SGEs: make([]SGE, 2)}}); n != 1 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("%d receives: %v", n, err)
	}
	if n, err := s.qp.PostSend(nil); n != 0 || err != nil {
		t.Errorf("no work requests: %d, %v", n, err)
	}
	ok(t, s.qp.Batch().Post())
}

func TestFake_QueueFull(t *testing.T) {
	s := fakeLoop(t, nil, &QPOptions{MaxSendWR: 16, MaxRecvWR: 16})
	wrs := make([]SendWR, 40)
	for i := range wrs {
		wrs[i] = write(s, uint64(i), Signaled)
	}
	total := 0
	for total < len(wrs) {
		n, err := s.qp.PostSend(wrs[total:])
		total += n
		if total == len(wrs) {
			ok(t, err)
			break
		}
		if n != 16 || !errors.Is(err, ErrQueueFull) {
			t.Fatalf("%d taken: %v", n, err)
		}
		if got := drain(t, s.cq); got != 16 {
			t.Fatalf("%d completions", got)
		}
	}
	drain(t, s.cq)
	n, err := s.qp.PostRecv(make([]RecvWR, 17))
	if n != 16 || !errors.Is(err, ErrQueueFull) {
		t.Errorf("%d receives: %v", n, err)
	}
	// What of a Batch does not fit stays in it.
	b := s.qp.Batch()
	for i := range uint64(40) {
		b.Write(i, Signaled, s.mr.SGE(0, 1), s.mr.Remote().At(0))
	}
	for _, left := range []int{24, 8} {
		var pe *PostError
		if err := b.Post(); !errors.Is(err, ErrQueueFull) || !errors.As(err, &pe) || pe.Accepted != 16 ||
			b.Len() != left {
			t.Errorf("batch of more than the queue holds: %v, %d stay", err, b.Len())
		}
		for i := range uint64(16) {
			s.good(t, uint64(40-left-16)+i)
		}
	}
	b.Write(40, Signaled, s.mr.SGE(0, 1), s.mr.Remote().At(0))
	ok(t, b.Post())
	for i := range uint64(9) {
		s.good(t, 32+i)
	}
}

func TestFake_PollFails(t *testing.T) {
	s := fakeLoop(t, nil, nil)
	wcs := make([]WC, 4)
	for _, ret := range []int{-1, -2, -int(syscall.EIO), math.MinInt32} {
		set(t, "poll", ret)
		if n, err := s.cq.Poll(wcs); n != 0 || !errors.Is(err, ErrPoll) {
			t.Errorf("poll that returns %d: %d, %v", ret, n, err)
		}
		_, err := s.cq.Wait(timeout(t), wcs)
		wantErr(t, err, ErrPoll, "fake0")
		for _, err := range s.cq.Completions(timeout(t)) {
			wantErr(t, err, ErrPoll)
		}
	}
	set(t, "poll", 1000) // more than asked for
	if n, err := s.cq.Poll(wcs); n != 4 || err != nil {
		t.Errorf("poll that returns too much: %d, %v", n, err)
	}
	unset(t, "poll")
	if n, err := s.cq.Poll(nil); n != 0 || err != nil {
		t.Errorf("poll of none: %d, %v", n, err)
	}
	for _, e := range []int{int(syscall.EIO), -int(syscall.EIO)} {
		set(t, "notify", e)
		wantErr(t, s.cq.Arm(false), syscall.EIO, "arm cq")
		_, err := s.cq.Wait(timeout(t), wcs)
		wantErr(t, err, syscall.EIO)
	}
}

// What a later library or device may say is printed, and never fatal.
func TestFake_UnknownValues(t *testing.T) {
	set(t, "node_type", 42)
	set(t, "transport_type", -7)
	set(t, "atomic_cap", 9)
	set(t, "port.state", 77)
	set(t, "port.mtu", 8)
	set(t, "port.phys", 200)
	set(t, "port.link_layer", 9)
	set(t, "port.width", 128)
	set(t, "port.speed_ex", 1<<30)
	set(t, "gid_type", 12)
	set(t, "qp.state", 55)
	devs := must(Devices())(t)
	d := devs[0]
	s := fakeSide(t, nil)
	p := must(s.dev.QueryPort(1))(t)
	e := must(s.dev.QueryGIDEntry(1, 1))(t)
	qp := s.newQP(t, nil)
	attr, err := qp.Query(MaskState)
	ok(t, err)
	a := must(s.dev.QueryDevice())(t)
	for _, c := range []struct{ got, want string }{
		{d.NodeType.String(), "NodeType(42)"},
		{d.Transport.String(), "TransportType(-7)"},
		{a.AtomicCap.String(), "AtomicCap(9)"},
		{p.State.String(), "PortState(77)"},
		{p.ActiveMTU.String(), "MTU(8)"},
		{p.PhysState.String(), "PhysState(200)"},
		{p.LinkLayer.String(), "LinkLayer(9)"},
		{e.Type.String(), "GIDType(12)"},
		{attr.State.String(), "QPState(55)"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	if p.RateGbps() != 0 || p.Rate() == "" {
		t.Errorf("rate %v %q", p.RateGbps(), p.Rate())
	}
	unset(t, "qp.state")
	unset(t, "port.state")
	unset(t, "port.mtu")
	_, err = qp.Query(MaskState)
	ok(t, err)

	ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
	set(t, "wc.opcode", 99)
	post(t, qp, write(s, 1, Signaled))
	if wc := s.next(t); wc.Opcode.String() != "WCOpcode(99)" || wc.Err() != nil {
		t.Errorf("completion %+v", wc)
	}
	set(t, "wc.status", 123)
	set(t, "wc.flags", 1<<20|1)
	post(t, qp, write(s, 2, Signaled))
	wc := s.next(t)
	var we *WCError
	if err := wc.Err(); !errors.As(err, &we) || !strings.Contains(err.Error(), "123") {
		t.Errorf("status 123: %v", err)
	}
	if wc.Status.String() != "WCStatus(123)" || WCFlags(1<<20|1).String() == "" {
		t.Errorf("status %v", wc.Status)
	}
}

// A provider without a function says so when it is needed.
func TestFake_MissingSlots(t *testing.T) {
	for slot, use := range map[string]func(t *testing.T) error{
		"poll_cq": func(t *testing.T) error {
			d := closing(t, must(Open("fake0"))(t))
			_, err := d.CreateCQ(8, nil)
			return err
		},
		"post_send": func(t *testing.T) error {
			s := fakeSide(t, nil)
			_, err := s.pd.CreateQP(s.cq, s.cq, nil)
			return err
		},
		"post_srq_recv": func(t *testing.T) error {
			s := fakeSide(t, nil)
			_, err := s.pd.CreateSRQ(nil)
			return err
		},
	} {
		t.Run(slot, func(t *testing.T) {
			set(t, "null."+slot, 1)
			err := use(t)
			var ue *UnsupportedError
			if !errors.As(err, &ue) || ue.Feature != slot {
				t.Errorf("%v", err)
			}
			wantErr(t, err, ErrNotSupported, slot)
		})
	}
	set(t, "null.query_port", 1)
	set(t, "null.query_device_ex", 1)
	s := fakeSide(t, nil)
	if p := must(s.dev.QueryPort(1))(t); p.State != PortActive {
		t.Errorf("port %+v", p)
	}
}

func TestFake_Close(t *testing.T) {
	leavesNothing(t)
	d := must(Open("fake0"))(t)
	pd := must(d.AllocPD())(t)
	ch := must(d.CreateCompChannel())(t)
	cq := must(d.CreateCQ(8, &CQOptions{Channel: ch}))(t)
	own := must(d.CreateCQ(8, nil))(t)
	srq := must(pd.CreateSRQ(nil))(t)
	qp := must(pd.CreateQP(cq, own, &QPOptions{SRQ: srq}))(t)
	mr := must(pd.AllocMR(4096, LocalWrite, nil))(t)
	ah := must(pd.CreateAH(&AHAttr{Port: 1}))(t)

	busy := func(err error, words ...string) {
		t.Helper()
		var be *BusyError
		if !errors.As(err, &be) {
			t.Errorf("%v is no BusyError", err)
			return
		}
		wantErr(t, err, syscall.EBUSY, words...)
	}
	busy(d.Close(), "1 pd", "2 cq")
	busy(pd.Close(), "1 ah", "1 mr", "1 qp", "1 srq")
	busy(ch.Close(), "1 cq")
	busy(cq.Close(), "1 qp")
	busy(own.Close(), "1 qp")
	busy(srq.Close(), "1 qp")
	for _, x := range []interface{ Close() error }{ah, mr, qp, srq, own, cq, ch, pd, d} {
		ok(t, x.Close())
		ok(t, x.Close())
	}

	ctx := context.Background()
	discard := func(_ any, err error) error { return err }
	for name, use := range map[string]func() error{
		"context":    func() error { return discard(d.AllocPD()) },
		"port":       func() error { return discard(d.QueryPort(1)) },
		"gid":        func() error { return discard(d.GIDTable()) },
		"cq":         func() error { return discard(d.CreateCQ(1, nil)) },
		"channel":    func() error { return discard(d.CreateCompChannel()) },
		"async":      func() error { return discard(d.AsyncEvent(ctx)) },
		"mr":         func() error { return discard(pd.AllocMR(1, 0, nil)) },
		"slice":      func() error { return discard(pd.RegMR(make([]byte, 1), 0)) },
		"qp":         func() error { return discard(pd.CreateQP(cq, cq, nil)) },
		"srq":        func() error { return discard(pd.CreateSRQ(nil)) },
		"ah":         func() error { return discard(pd.CreateAH(&AHAttr{Port: 1})) },
		"rereg":      func() error { return mr.Rereg(&ReregOptions{PD: pd}) },
		"poll":       func() error { return discard(cq.Poll(make([]WC, 1))) },
		"wait":       func() error { return discard(cq.Wait(ctx, make([]WC, 1))) },
		"arm":        func() error { return cq.Arm(false) },
		"resize":     func() error { return cq.Resize(4) },
		"post send":  func() error { return discard(qp.PostSend([]SendWR{{}})) },
		"batch":      func() error { b := qp.Batch(); b.Send(1, 0, SGE{}); return b.Post() },
		"modify":     func() error { return qp.Modify(&QPAttr{}, 0) },
		"query":      func() error { _, err := qp.Query(0); return err },
		"endpoint":   func() error { return discard(qp.Endpoint(1, 1)) },
		"connect":    func() error { return qp.Connect(Endpoint{}, nil) },
		"mcast":      func() error { return qp.AttachMcast(GID{}, 0) },
		"post srq":   func() error { return discard(srq.PostRecv(make([]RecvWR, 1))) },
		"srq limit":  func() error { return srq.SetLimit(1) },
		"srq query":  func() error { return discard(srq.Query()) },
		"channel cq": func() error { return discard(d.CreateCQ(1, &CQOptions{Channel: ch})) },
	} {
		if err := use(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if mr.Bytes() != nil || qp.State() != StateUnknown || d.NumCompVectors() != 0 {
		t.Error("a closed object still shows its insides")
	}
	for _, err := range cq.Completions(ctx) {
		wantErr(t, err, ErrClosed)
	}
}

// A channel that fails, as when the device is pulled out, ends all waiting.
func TestFake_ChannelFails(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Spin: None}, nil)
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := s.cq.Wait(timeout(t), make([]WC, 1))
			errs <- err
		}()
	}
	for deadline := time.Now().Add(testutil.Patience); !waiting(s.cq, 2); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
	failing(t, "ibv_get_cq_event", syscall.EIO)
	post(t, s.qp, write(s, 1, Signaled)) // its event wakes the reader, which then fails
	got := 0
	for range 2 {
		if err := <-errs; err == nil {
			got++
		} else {
			wantErr(t, err, syscall.EIO, "channel")
		}
	}
	if got > 1 {
		t.Errorf("one completion was delivered %d times", got)
	}
	// What is there can still be had, and closing does not wait for the event.
	post(t, s.qp, write(s, 2, Signaled))
	if wc := s.next(t); wc.ID == 0 {
		t.Errorf("completion %+v", wc)
	}
	drain(t, s.cq)
	_, err := s.cq.Wait(timeout(t), make([]WC, 1))
	wantErr(t, err, syscall.EIO)
	unset(t, "fail.ibv_get_cq_event")
	var ev control.CQEvent
	ok(t, s.dev.v.GetCQEvent(s.cq.channel.handle, &ev))
	s.dev.v.AckCQEvents(ev.CQ, 1, &ev)
}

func waiting(cq *CQ, n int) bool {
	cq.sleepers.waitMu.Lock()
	defer cq.sleepers.waitMu.Unlock()
	return len(cq.sleepers.waiters) == n
}
