package rdmacm

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/loader"
)

// cm calls librdmacm: one method for each C function, named after it, with its
// prototype above. Handles are addresses of C objects. Attributes are Go memory
// on the heap that is kept alive for the call; C does not keep pointers to them.
type cm struct{ lib *loader.Library }

// library opens librdmacm once.
var library = sync.OnceValues(func() (*cm, error) {
	lib, err := loader.Open(loader.RDMACM)
	if err != nil {
		return nil, err
	}
	return &cm{lib}, nil
})

//go:uintptrescapes
func (c *cm) ptr(name string, args ...uintptr) (uintptr, error) {
	fn, err := c.symbol(name)
	if err != nil {
		return 0, err
	}
	return ccall.Ptr(fn, args...)
}

//go:uintptrescapes
func (c *cm) minus1(name string, args ...uintptr) error {
	fn, err := c.symbol(name)
	if err != nil {
		return err
	}
	return ccall.Minus1(fn, args...)
}

//go:uintptrescapes
func (c *cm) void(name string, args ...uintptr) {
	if fn, err := c.symbol(name); err == nil {
		_ = ccall.Void(fn, args...)
	}
}

// struct rdma_event_channel *rdma_create_event_channel(void);
func (c *cm) createEventChannel() (uintptr, error) { return c.ptr("rdma_create_event_channel") }

// void rdma_destroy_event_channel(struct rdma_event_channel *channel);
func (c *cm) destroyEventChannel(ch uintptr) { c.void("rdma_destroy_event_channel", ch) }

func channelFD(ch uintptr) int { return int(at[abi.RDMAEventChannel](ch).FD) }

// int rdma_create_id(struct rdma_event_channel *, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);
func (c *cm) createID(ch uintptr, ps PortSpace) (uintptr, error) {
	out := new(uintptr)
	err := c.minus1("rdma_create_id", ch, uintptr(unsafe.Pointer(out)), 0, uintptr(ps))
	return *out, err
}

// int rdma_destroy_id(struct rdma_cm_id *id);
func (c *cm) destroyID(id uintptr) error { return c.minus1("rdma_destroy_id", id) }

// int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
func (c *cm) bindAddr(id uintptr, a *sockaddr) error {
	return c.minus1("rdma_bind_addr", id, uintptr(unsafe.Pointer(a)))
}

// int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
func (c *cm) resolveAddr(id uintptr, src, dst *sockaddr, ms int) error {
	return c.minus1("rdma_resolve_addr", id, uintptr(unsafe.Pointer(src)), uintptr(unsafe.Pointer(dst)), uintptr(ms))
}

// int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
func (c *cm) resolveRoute(id uintptr, ms int) error {
	return c.minus1("rdma_resolve_route", id, uintptr(ms))
}

// int rdma_listen(struct rdma_cm_id *id, int backlog);
func (c *cm) listen(id uintptr, backlog int) error {
	return c.minus1("rdma_listen", id, uintptr(backlog))
}

// connParam is struct rdma_conn_param with the private data that it points to.
type connParam struct {
	abi.RDMAConnParam
	data [256]byte
}

// int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
func (c *cm) connect(id uintptr, p *ConnParam) error { return c.withParam("rdma_connect", id, p) }

// int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
func (c *cm) accept(id uintptr, p *ConnParam) error { return c.withParam("rdma_accept", id, p) }

// Preconditions: the private data is within its limit.
func (c *cm) withParam(name string, id uintptr, p *ConnParam) error {
	param := &connParam{}
	param.RDMAConnParam = p.toC()
	if n := copy(param.data[:], p.PrivateData); n > 0 {
		param.PrivateDataLen = uint8(n)
		param.PrivateData = heap(unsafe.Pointer(&param.data))
	}
	err := c.minus1(name, id, uintptr(unsafe.Pointer(&param.RDMAConnParam)))
	runtime.KeepAlive(param)
	return err
}

// int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
// int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
func (c *cm) reject(name string, id uintptr, data []byte) error {
	buf := new([256]byte)
	n := copy(buf[:], data)
	return c.minus1(name, id, uintptr(unsafe.Pointer(buf)), uintptr(n))
}

// int rdma_establish(struct rdma_cm_id *id); absent before v23.
func (c *cm) establish(id uintptr) error { return c.minus1("rdma_establish", id) }

// int rdma_disconnect(struct rdma_cm_id *id);
func (c *cm) disconnect(id uintptr) error { return c.minus1("rdma_disconnect", id) }

// int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event);
func (c *cm) notify(id uintptr, event uint32) error {
	return c.minus1("rdma_notify", id, uintptr(event))
}

// int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
func (c *cm) migrateID(id, ch uintptr) error { return c.minus1("rdma_migrate_id", id, ch) }

// int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
func (c *cm) createQP(id, pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error) {
	err := c.minus1("rdma_create_qp", id, pd, uintptr(unsafe.Pointer(attr)))
	if err != nil {
		return 0, err
	}
	return at[abi.RDMACMID](id).QP, nil
}

// forgetQP is what rdma_destroy_qp does after ibv_destroy_qp, for an ID whose CQs are not librdmacm's.
func forgetQP(id uintptr) { at[abi.RDMACMID](id).QP = 0 }

// int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask); absent before v23.
func (c *cm) initQPAttr(id uintptr, attr *abi.QPAttr) (mask uint32, err error) {
	out := new(uint32)
	err = c.minus1("rdma_init_qp_attr", id, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(out)))
	return *out, err
}

// hidden is what tests take away: symbols that older libraries lack.
var hidden atomic.Pointer[[]string]

// symbol looks up a function.
func (c *cm) symbol(name string) (uintptr, error) {
	if h := hidden.Load(); h != nil && slices.Contains(*h, name) {
		return 0, &loader.SymbolError{Symbol: name, Library: loader.RDMACM, Since: "v23"}
	}
	return c.lib.Symbol(name)
}

// bringsUp is nil if QPs that others made can be brought up, or else names the
// function that is missing.
func (c *cm) bringsUp() error {
	for _, name := range []string{"rdma_init_qp_attr", "rdma_establish"} {
		if _, err := c.symbol(name); err != nil {
			return err
		}
	}
	return nil
}

// int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen);
func (c *cm) setOption(id uintptr, level, name int, value []byte) error {
	buf := make([]byte, len(value))
	copy(buf, value)
	return c.minus1("rdma_set_option", id, uintptr(level), uintptr(name), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
}

// int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
func (c *cm) joinMulticast(id uintptr, a *sockaddr, cookie uintptr) error {
	return c.minus1("rdma_join_multicast", id, uintptr(unsafe.Pointer(a)), cookie)
}

// int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context);
// Absent before v16.
func (c *cm) joinMulticastEx(id uintptr, a *sockaddr, flags uint32, cookie uintptr) error {
	attr := &abi.RDMAJoinMCAttrEx{
		CompMask:  abi.RDMA_CM_JOIN_MC_ATTR_ADDRESS | abi.RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		JoinFlags: flags,
		Addr:      heap(unsafe.Pointer(a)),
	}
	err := c.minus1("rdma_join_multicast_ex", id, uintptr(unsafe.Pointer(attr)), cookie)
	runtime.KeepAlive(a)
	return err
}

// int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
func (c *cm) leaveMulticast(id uintptr, a *sockaddr) error {
	return c.minus1("rdma_leave_multicast", id, uintptr(unsafe.Pointer(a)))
}

// int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece); absent before v31.
func (c *cm) setLocalECE(id uintptr, e *abi.ECE) error {
	return c.minus1("rdma_set_local_ece", id, uintptr(unsafe.Pointer(e)))
}

// int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece); absent before v31.
func (c *cm) getRemoteECE(id uintptr, e *abi.ECE) error {
	return c.minus1("rdma_get_remote_ece", id, uintptr(unsafe.Pointer(e)))
}

// int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);
// Absent before v60.
func (c *cm) writeCMEvent(id uintptr, event EventType, status int32, arg uint64) error {
	return c.minus1("rdma_write_cm_event", id, uintptr(event), uintptr(uint32(status)), uintptr(arg))
}

// struct ibv_context **rdma_get_devices(int *num_devices);
func (c *cm) getDevices() (list uintptr, handles []uintptr, err error) {
	n := new(int32)
	list, err = c.ptr("rdma_get_devices", uintptr(unsafe.Pointer(n)))
	if err != nil {
		return 0, nil, err
	}
	return list, append([]uintptr(nil), unsafe.Slice(at[uintptr](list), int(*n))...), nil
}

// void rdma_free_devices(struct ibv_context **list);
func (c *cm) freeDevices(list uintptr) { c.void("rdma_free_devices", list) }

// rawEvent is what an event says, copied.
type rawEvent struct {
	abi.RDMACMEvent
	ud   bool // Param is an RDMAUDParam
	data []byte
}

// int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
// int rdma_ack_cm_event(struct rdma_cm_event *event);
// No other place reads events: each is copied and acknowledged at once.
func (c *cm) takeEvent(ch uintptr) (*rawEvent, error) {
	ack, err := c.lib.Symbol("rdma_ack_cm_event")
	if err != nil {
		return nil, err
	}
	out := new(uintptr)
	if err := c.minus1("rdma_get_cm_event", ch, uintptr(unsafe.Pointer(out))); err != nil {
		return nil, err
	}
	ev := &rawEvent{RDMACMEvent: *at[abi.RDMACMEvent](*out)}
	p, n := ev.Conn().PrivateData, int(ev.Conn().PrivateDataLen)
	switch EventType(ev.Event) {
	case EventMulticastJoin, EventMulticastError:
		ev.ud = true // and its private data is the context of the join
	case EventUser:
	case EventConnectRequest, EventConnectResponse, EventConnectError, EventUnreachable, EventRejected, EventEstablished, EventDisconnected:
		ev.ud = at[abi.RDMACMID](ev.ID).QPType == abi.IBV_QPT_UD
		if p != 0 && n > 0 {
			ev.data = append([]byte(nil), unsafe.Slice(at[byte](p), n)...)
		}
	}
	_ = ccall.Minus1(ack, *out)
	return ev, nil
}

// The functions below read the public fields of struct rdma_cm_id.

func idVerbs(id uintptr) uintptr { return at[abi.RDMACMID](id).Verbs }
func idPort(id uintptr) uint8    { return at[abi.RDMACMID](id).PortNum }
func idPKey(id uintptr) uint16   { return at[abi.RDMACMID](id).Route.Addr.Addr.PKey.Get() }
func idGIDs(id uintptr) (src, dst abi.GID) {
	a := &at[abi.RDMACMID](id).Route.Addr.Addr
	return a.SGID, a.DGID
}
func idSrc(id uintptr) sockaddr { return sockaddr(at[abi.RDMACMID](id).Route.Addr.SrcStorage) }
func idDst(id uintptr) sockaddr { return sockaddr(at[abi.RDMACMID](id).Route.Addr.DstStorage) }

func idPaths(id uintptr) []abi.SAPathRec {
	r := &at[abi.RDMACMID](id).Route
	if r.PathRec == 0 || r.NumPaths <= 0 {
		return nil
	}
	return append([]abi.SAPathRec(nil), unsafe.Slice(at[abi.SAPathRec](r.PathRec), int(r.NumPaths))...)
}

// transport is that of the device, ibv.TransportType.
func idTransport(id uintptr) int32 {
	ctx := idVerbs(id)
	if ctx == 0 {
		return 0
	}
	return int32(at[abi.Device](at[abi.Context](ctx).Device).TransportType)
}

// pathBytes is the option RDMA_OPTION_IB_PATH: an array of struct ibv_path_data.
func pathBytes(paths []abi.PathData) []byte {
	if len(paths) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(paths))), len(paths)*int(unsafe.Sizeof(paths[0])))
}

// int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res);
// void rdma_freeaddrinfo(struct rdma_addrinfo *res);
// The code is 0, -1 with an errno, or one of getaddrinfo(3).
func (c *cm) getAddrInfo(node, service string, hints *Hints) (list []AddrInfo, code int, err error) {
	fn, err := c.lib.Symbol("rdma_getaddrinfo")
	if err != nil {
		return nil, 0, err
	}
	h, n, s := newHints(hints), cstr(node), cstr(service)
	out := new(uintptr)
	code, err = ccall.IntErrno(fn, addrOf(n), addrOf(s), h.addr(), uintptr(unsafe.Pointer(out)))
	runtime.KeepAlive(h)
	runtime.KeepAlive(n)
	runtime.KeepAlive(s)
	if err != nil {
		return nil, code, err
	}
	list = addrInfos(*out)
	c.void("rdma_freeaddrinfo", *out)
	return list, 0, nil
}

// int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints);
// Absent before v60.
func (c *cm) resolveAddrInfo(id uintptr, node, service string, hints *Hints) (int, error) {
	fn, err := c.lib.Symbol("rdma_resolve_addrinfo")
	if err != nil {
		return 0, err
	}
	h, n, s := newHints(hints), cstr(node), cstr(service)
	code, err := ccall.IntErrno(fn, id, addrOf(n), addrOf(s), h.addr())
	runtime.KeepAlive(h)
	runtime.KeepAlive(n)
	runtime.KeepAlive(s)
	return code, err
}

// int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info); absent before v60.
func (c *cm) queryAddrInfo(id uintptr) ([]AddrInfo, error) {
	out := new(uintptr)
	if err := c.minus1("rdma_query_addrinfo", id, uintptr(unsafe.Pointer(out))); err != nil {
		return nil, err
	}
	list := addrInfos(*out)
	c.void("rdma_freeaddrinfo", *out)
	return list, nil
}

// hintsC is struct rdma_addrinfo with the addresses that it points to.
type hintsC struct {
	abi.RDMAAddrinfo
	src, dst sockaddr
}

func newHints(h *Hints) *hintsC {
	if h == nil {
		return nil
	}
	c := &hintsC{RDMAAddrinfo: abi.RDMAAddrinfo{
		AIFlags: int32(h.Flags), AIFamily: int32(h.Family), AIQPType: int32(h.QPType), AIPortSpace: int32(h.PortSpace),
	}}
	if h.Src.Addr().IsValid() {
		c.src, _ = newSockaddr(h.Src)
		c.AISrcAddr, c.AISrcLen = heap(unsafe.Pointer(&c.src)), c.src.len()
	}
	if h.Dst.Addr().IsValid() {
		c.dst, _ = newSockaddr(h.Dst)
		c.AIDstAddr, c.AIDstLen = heap(unsafe.Pointer(&c.dst)), c.dst.len()
	}
	return c
}

func (h *hintsC) addr() uintptr {
	if h == nil {
		return 0
	}
	return heap(unsafe.Pointer(&h.RDMAAddrinfo))
}

// addrInfos copies a list.
func addrInfos(p uintptr) (list []AddrInfo) {
	bytes := func(p uintptr, n int) []byte {
		if p == 0 || n <= 0 {
			return nil
		}
		return append([]byte(nil), unsafe.Slice(at[byte](p), n)...)
	}
	for n := 0; p != 0 && n < 1024; n++ {
		c := at[abi.RDMAAddrinfo](p)
		a := AddrInfo{
			Flags: AddrInfoFlags(c.AIFlags), Family: Family(c.AIFamily), QPType: qpType(c.AIQPType), PortSpace: PortSpace(c.AIPortSpace),
			SrcName: ccall.GoString(c.AISrcCanonname), DstName: ccall.GoString(c.AIDstCanonname),
			RawSrc: bytes(c.AISrcAddr, int(c.AISrcLen)), RawDst: bytes(c.AIDstAddr, int(c.AIDstLen)),
			Route: bytes(c.AIRoute, int(c.AIRouteLen)), ConnectData: bytes(c.AIConnect, int(c.AIConnectLen)),
		}
		a.Src, a.Dst = addrPortOf(a.RawSrc), addrPortOf(a.RawDst)
		list = append(list, a)
		p = c.AINext
	}
	return list
}

// const char *gai_strerror(int errcode);
func gaiText(code int) string {
	fn, err := ccall.Libc("gai_strerror")
	if err != nil {
		return ""
	}
	return ccall.String(fn, uintptr(uint32(int32(code))))
}

// cstr is a C string, nil for "".
func cstr(s string) []byte {
	if s == "" {
		return nil
	}
	return append([]byte(s), 0)
}

func addrOf(b []byte) uintptr { return heap(unsafe.Pointer(unsafe.SliceData(b))) }

// at views C memory at p as a T. The memory is never Go's, so the detour that
// hides the conversion from vet is sound.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// heap moves what p points to to the heap, which does not move, and gives its
// address. The caller keeps p.
//
//go:noinline
func heap(p unsafe.Pointer) uintptr {
	atomic.StorePointer(&sink, p)
	atomic.StorePointer(&sink, nil)
	return uintptr(p)
}

var sink unsafe.Pointer

// again tells whether there was no event.
func again(err error) bool { return err == syscall.EAGAIN || err == syscall.EINTR }
