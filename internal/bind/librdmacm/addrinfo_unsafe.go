package librdmacm

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
// struct rdma_addrinfo **res);
// The code is 0, -1 with an errno, or one of getaddrinfo(3).
func (l Lib) GetAddrInfo(node, service string, hints *control.AddrInfo) (list []control.AddrInfo, code int, err error) {
	n, s, out := cmem.CString(node), cmem.CString(service), new(uintptr)
	code, err = l.lib.Minus1Int("rdma_getaddrinfo", uintptr(unsafe.Pointer(unsafe.SliceData(n))),
		uintptr(unsafe.Pointer(unsafe.SliceData(s))), uintptr(unsafe.Pointer(toC(hints))),
		uintptr(unsafe.Pointer(out)))
	runtime.KeepAlive(hints)
	if err != nil {
		return nil, code, err
	}
	return l.addrInfos(*out), 0, nil
}

// int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
// const struct rdma_addrinfo *hints); absent before v60.
func (l Lib) ResolveAddrInfo(id uintptr, node, service string, hints *control.AddrInfo) (code int, err error) {
	n, s := cmem.CString(node), cmem.CString(service)
	err = on(channelOf(id), func() (err error) {
		code, err = l.lib.Minus1Int("rdma_resolve_addrinfo", id, uintptr(unsafe.Pointer(unsafe.SliceData(n))),
			uintptr(unsafe.Pointer(unsafe.SliceData(s))), uintptr(unsafe.Pointer(toC(hints))))
		return err
	})
	runtime.KeepAlive(hints)
	return code, err
}

// int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info); absent before v60.
func (l Lib) QueryAddrInfo(id uintptr) ([]control.AddrInfo, error) {
	out := new(uintptr)
	if err := l.write(channelOf(id), "rdma_query_addrinfo", id, uintptr(unsafe.Pointer(out))); err != nil {
		return nil, err
	}
	return l.addrInfos(*out), nil
}

// int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
// struct ibv_qp_init_attr *qp_init_attr);
// It waits for up to four seconds, without a QP. The ID is synchronous until it is migrated: it has a channel of its
// own, whose thread is the caller's.
func (l Lib) CreateEP(a *control.AddrInfo) (uintptr, error) {
	c, out := toC(a), new(uintptr)
	c.AIRouteLen, c.AIRoute = uint64(len(a.Route)), cmem.Heap(unsafe.Pointer(unsafe.SliceData(a.Route)))
	err := l.lib.Minus1("rdma_create_ep", uintptr(unsafe.Pointer(out)), uintptr(unsafe.Pointer(c)), 0, 0)
	runtime.KeepAlive(a)
	return *out, err
}

// toC returns hints for C, which are valid as long as h is reachable.
func toC(h *control.AddrInfo) *abi.RDMAAddrinfo {
	if h == nil {
		return nil
	}
	return &abi.RDMAAddrinfo{
		AIFlags: h.Flags, AIFamily: h.Family, AIQPType: h.QPType, AIPortSpace: h.PortSpace,
		AISrcLen: uint32(len(h.Src)), AISrcAddr: cmem.Heap(unsafe.Pointer(unsafe.SliceData(h.Src))),
		AIDstLen: uint32(len(h.Dst)), AIDstAddr: cmem.Heap(unsafe.Pointer(unsafe.SliceData(h.Dst))),
	}
}

// void rdma_freeaddrinfo(struct rdma_addrinfo *res);
// addrInfos copies the list before it frees it.
func (l Lib) addrInfos(first uintptr) (list []control.AddrInfo) {
	for p, n := first, 0; p != 0 && n < 1024; n++ {
		c := cmem.At[abi.RDMAAddrinfo](p)
		list = append(list, control.AddrInfo{
			Flags: c.AIFlags, Family: c.AIFamily, QPType: c.AIQPType, PortSpace: c.AIPortSpace,
			Src:     cmem.Clone[byte](c.AISrcAddr, int(c.AISrcLen)),
			Dst:     cmem.Clone[byte](c.AIDstAddr, int(c.AIDstLen)),
			SrcName: cmem.String(c.AISrcCanonname), DstName: cmem.String(c.AIDstCanonname),
			Route:   cmem.Clone[byte](c.AIRoute, int(c.AIRouteLen)),
			Connect: cmem.Clone[byte](c.AIConnect, int(c.AIConnectLen)),
		})
		p = c.AINext
	}
	_ = l.lib.Void("rdma_freeaddrinfo", first)
	return list
}

// const char *gai_strerror(int errcode); of the C library.
func (l Lib) GAIText(code int) string {
	fn, err := ccall.Libc("gai_strerror")
	if err != nil {
		return ""
	}
	return ccall.String(fn, uintptr(uint32(int32(code))))
}
