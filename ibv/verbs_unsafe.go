package ibv

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/loader"
)

// verbs calls libibverbs: one method for each C function, named after it, with
// its prototype above. Handles are addresses of C objects. Attributes are Go
// memory that escapes to the heap and is kept alive for the call; C does not
// keep pointers to them.
type verbs struct {
	lib       *loader.Library
	providers atomic.Bool // they were looked at
}

// has tells whether the library exports name.
func (v *verbs) has(name string) bool {
	_, err := v.lib.Symbol(name)
	return err == nil
}

//go:uintptrescapes
func (v *verbs) ptr(name string, args ...uintptr) (uintptr, error) {
	fn, err := v.lib.Symbol(name)
	if err != nil {
		return 0, err
	}
	return ccall.Ptr(fn, args...)
}

//go:uintptrescapes
func (v *verbs) err(name string, args ...uintptr) error {
	fn, err := v.lib.Symbol(name)
	if err != nil {
		return err
	}
	return ccall.Err(fn, args...)
}

//go:uintptrescapes
func (v *verbs) minus1(name string, args ...uintptr) (int, error) {
	fn, err := v.lib.Symbol(name)
	if err != nil {
		return 0, err
	}
	return ccall.Minus1Int(fn, args...)
}

//go:uintptrescapes
func (v *verbs) void(name string, args ...uintptr) error {
	fn, err := v.lib.Symbol(name)
	if err != nil {
		return err
	}
	ccall.Void(fn, args...)
	return nil
}

// destroy destroys an object, whose first field is its context.
func (v *verbs) destroy(name string, obj uintptr) error {
	ctx := *at[uintptr](obj)
	return v.destroyed(ctx, v.err(name, obj))
}

// destroyed looks at what a call answered that destroys an object. On a device that
// was removed libibverbs answers EIO and keeps the object's memory, or EBUSY for the
// sake of another one that it keeps; the kernel's objects are gone, so that this is a
// success.
func (v *verbs) destroyed(ctx uintptr, err error) error {
	switch err {
	case syscall.EIO, syscall.ENODEV, syscall.EBUSY:
		if e := v.queryDevice(ctx, new(abi.DeviceAttr)); e == syscall.EIO || e == syscall.ENODEV {
			return nil
		}
	}
	return err
}

// struct ibv_device **ibv_get_device_list(int *num_devices);
func (v *verbs) getDeviceList() (list uintptr, devices []uintptr, err error) {
	n := new(int32)
	list, err = v.ptr("ibv_get_device_list", uintptr(unsafe.Pointer(n)))
	if err != nil {
		return 0, nil, err
	}
	return list, unsafe.Slice(at[uintptr](list), int(*n)), nil
}

// void ibv_free_device_list(struct ibv_device **list);
func (v *verbs) freeDeviceList(list uintptr) { _ = v.void("ibv_free_device_list", list) }

// const char *ibv_get_device_name(struct ibv_device *device);
func (v *verbs) getDeviceName(dev uintptr) (string, error) {
	fn, err := v.lib.Symbol("ibv_get_device_name")
	if err != nil {
		return "", err
	}
	return ccall.String(fn, dev), nil
}

// __be64 ibv_get_device_guid(struct ibv_device *device);
func (v *verbs) getDeviceGUID(dev uintptr) (GUID, error) {
	fn, err := v.lib.Symbol("ibv_get_device_guid")
	if err != nil {
		return 0, err
	}
	return GUID(be64(ccall.Uint64(fn, dev))), nil
}

// int ibv_get_device_index(struct ibv_device *device); absent before v30.
func (v *verbs) getDeviceIndex(dev uintptr) int {
	fn, err := v.lib.Symbol("ibv_get_device_index")
	if err != nil {
		return -1
	}
	return int(ccall.Int(fn, dev))
}

// struct ibv_context *ibv_open_device(struct ibv_device *device);
func (v *verbs) openDevice(dev uintptr) (uintptr, error) { return v.ptr("ibv_open_device", dev) }

// int ibv_close_device(struct ibv_context *context);
func (v *verbs) closeDevice(ctx uintptr) error { return v.err("ibv_close_device", ctx) }

// int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
func (v *verbs) queryDevice(ctx uintptr, attr *abi.DeviceAttr) error {
	return v.err("ibv_query_device", ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*query_device_ex)(ctx, const struct ibv_query_device_ex_input *, struct ibv_device_attr_ex *, size_t);
// An op of verbs_context, not an export.
func (v *verbs) queryDeviceEx(ctx uintptr, attr *abi.DeviceAttrEx) error {
	op := abi.ContextOp(ctx, abi.DistQueryDeviceEx)
	if op == 0 {
		return ErrNotSupported
	}
	return ccall.Err(op, ctx, 0, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
}

// int ibv_query_port(struct ibv_context *, uint8_t port, struct ibv_port_attr *);
// The exported function knows only the first 48 bytes. The op of verbs_context
// takes a length and is used where there is one (v22).
func (v *verbs) queryPort(ctx uintptr, port uint8, attr *abi.PortAttr) error {
	if op := abi.ContextOp(ctx, abi.DistQueryPort); op != 0 {
		return ccall.Err(op, ctx, uintptr(port), uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
	}
	return v.err("ibv_query_port", ctx, uintptr(port), uintptr(unsafe.Pointer(attr)))
}

// int ibv_query_gid(struct ibv_context *, uint8_t port, int index, union ibv_gid *gid);
func (v *verbs) queryGID(ctx uintptr, port uint8, index int, gid *GID) error {
	_, err := v.minus1("ibv_query_gid", ctx, uintptr(port), uintptr(index), uintptr(unsafe.Pointer(gid)))
	return err
}

// int _ibv_query_gid_ex(ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *, uint32_t flags, size_t entry_size);
// Absent before v32.
func (v *verbs) queryGIDEx(ctx uintptr, port uint8, index int, e *abi.GIDEntry) error {
	return v.err("_ibv_query_gid_ex", ctx, uintptr(port), uintptr(index), uintptr(unsafe.Pointer(e)), 0, unsafe.Sizeof(*e))
}

// ssize_t _ibv_query_gid_table(ctx, struct ibv_gid_entry *, size_t max, uint32_t flags, size_t entry_size);
// Absent before v32.
func (v *verbs) queryGIDTable(ctx uintptr, entries []abi.GIDEntry) (int, error) {
	fn, err := v.lib.Symbol("_ibv_query_gid_table")
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	return ccall.NegErrno(fn, ctx, uintptr(unsafe.Pointer(&entries[0])), uintptr(len(entries)), 0, unsafe.Sizeof(entries[0]))
}

// int ibv_query_pkey(struct ibv_context *, uint8_t port, int index, __be16 *pkey);
func (v *verbs) queryPKey(ctx uintptr, port uint8, index int) (uint16, error) {
	k := new([2]byte)
	_, err := v.minus1("ibv_query_pkey", ctx, uintptr(port), uintptr(index), uintptr(unsafe.Pointer(k)))
	return uint16(k[0])<<8 | uint16(k[1]), err
}

// struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
func (v *verbs) allocPD(ctx uintptr) (uintptr, error) { return v.ptr("ibv_alloc_pd", ctx) }

// int ibv_dealloc_pd(struct ibv_pd *pd);
func (v *verbs) deallocPD(pd uintptr) error { return v.destroy("ibv_dealloc_pd", pd) }

// errNoOp: libibverbs is too old to have an op of verbs_context.
var errNoOp = fmt.Errorf("the library has no such op: %w", ErrNotSupported)

// struct ibv_td *(*alloc_td)(struct ibv_context *, struct ibv_td_init_attr *);
// An op of verbs_context (v17), not an export, as are the next two.
func (v *verbs) allocTD(ctx uintptr) (uintptr, error) {
	op := abi.ContextOp(ctx, abi.DistAllocTD)
	if op == 0 {
		return 0, errNoOp
	}
	return ccall.Ptr(op, ctx, uintptr(unsafe.Pointer(new(abi.TDInitAttr))))
}

// int (*dealloc_td)(struct ibv_td *);
func (v *verbs) deallocTD(ctx, td uintptr) error {
	op := abi.ContextOp(ctx, abi.DistDeallocTD)
	if op == 0 {
		return errNoOp
	}
	return v.destroyed(ctx, ccall.Err(op, td))
}

// struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *, struct ibv_parent_domain_init_attr *);
func (v *verbs) allocParentDomain(ctx, pd, td uintptr) (uintptr, error) {
	op := abi.ContextOp(ctx, abi.DistAllocParentDomain)
	if op == 0 {
		return 0, errNoOp
	}
	return ccall.Ptr(op, ctx, uintptr(unsafe.Pointer(&abi.ParentDomainInitAttr{PD: pd, TD: td})))
}

// struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
// An op of verbs_context.
func (v *verbs) createCQEx(ctx uintptr, attr *abi.CQInitAttrEx) (uintptr, error) {
	op := abi.ContextOp(ctx, abi.DistCreateCQEx)
	if op == 0 {
		return 0, errNoOp
	}
	return ccall.Ptr(op, ctx, uintptr(unsafe.Pointer(attr)))
}

// struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *addr, size_t length, int access);
func (v *verbs) regMR(pd, addr uintptr, length int, access AccessFlags) (uintptr, error) {
	return v.ptr("ibv_reg_mr", pd, addr, uintptr(length), uintptr(access))
}

// struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *, void *addr, size_t length, uint64_t iova, int access);
// Absent before v25.
func (v *verbs) regMRIOVA(pd, addr uintptr, length int, iova uint64, access AccessFlags) (uintptr, error) {
	return v.ptr("ibv_reg_mr_iova", pd, addr, uintptr(length), uintptr(iova), uintptr(access))
}

// struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *, void *addr, size_t length, uint64_t iova, unsigned int access);
// Absent before v28.
func (v *verbs) regMRIOVA2(pd, addr uintptr, length int, iova uint64, access AccessFlags) (uintptr, error) {
	return v.ptr("ibv_reg_mr_iova2", pd, addr, uintptr(length), uintptr(iova), uintptr(access))
}

// int ibv_rereg_mr(struct ibv_mr *, int flags, struct ibv_pd *, void *addr, size_t length, int access);
// Returns an ibv_rereg_mr_err_code, -1 to -5, and sets errno.
func (v *verbs) reregMR(mr uintptr, flags uint32, pd, addr uintptr, length int, access AccessFlags) (code int, err error) {
	fn, err := v.lib.Symbol("ibv_rereg_mr")
	if err != nil {
		return 0, err
	}
	return ccall.IntErrno(fn, mr, uintptr(flags), pd, addr, uintptr(length), uintptr(access))
}

// int ibv_dereg_mr(struct ibv_mr *mr);
func (v *verbs) deregMR(mr uintptr) error { return v.destroy("ibv_dereg_mr", mr) }

// struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
func (v *verbs) createCompChannel(ctx uintptr) (uintptr, error) {
	return v.ptr("ibv_create_comp_channel", ctx)
}

// int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
func (v *verbs) destroyCompChannel(ch uintptr) error {
	return v.destroy("ibv_destroy_comp_channel", ch)
}

// struct ibv_cq *ibv_create_cq(struct ibv_context *, int cqe, void *cq_context, struct ibv_comp_channel *, int comp_vector);
func (v *verbs) createCQ(ctx uintptr, cqe int, cookie, channel uintptr, vector int) (uintptr, error) {
	return v.ptr("ibv_create_cq", ctx, uintptr(cqe), cookie, channel, uintptr(vector))
}

// int ibv_resize_cq(struct ibv_cq *cq, int cqe);
func (v *verbs) resizeCQ(cq uintptr, cqe int) error { return v.err("ibv_resize_cq", cq, uintptr(cqe)) }

// int ibv_destroy_cq(struct ibv_cq *cq);
func (v *verbs) destroyCQ(cq uintptr) error { return v.destroy("ibv_destroy_cq", cq) }

// int ibv_get_cq_event(struct ibv_comp_channel *, struct ibv_cq **cq, void **cq_context);
func (v *verbs) getCQEvent(ch uintptr) (cq, cookie uintptr, err error) {
	out := new([2]uintptr)
	_, err = v.minus1("ibv_get_cq_event", ch, uintptr(unsafe.Pointer(&out[0])), uintptr(unsafe.Pointer(&out[1])))
	return out[0], out[1], err
}

// void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);
func (v *verbs) ackCQEvents(cq uintptr, n int) { _ = v.void("ibv_ack_cq_events", cq, uintptr(n)) }

// int ibv_get_async_event(struct ibv_context *, struct ibv_async_event *event);
func (v *verbs) getAsyncEvent(ctx uintptr, ev *abi.AsyncEvent) error {
	_, err := v.minus1("ibv_get_async_event", ctx, uintptr(unsafe.Pointer(ev)))
	return err
}

// void ibv_ack_async_event(struct ibv_async_event *event);
func (v *verbs) ackAsyncEvent(ev *abi.AsyncEvent) {
	_ = v.void("ibv_ack_async_event", uintptr(unsafe.Pointer(ev)))
}

// struct ibv_qp *ibv_create_qp(struct ibv_pd *, struct ibv_qp_init_attr *);
// MLNX_OFED 4.x reads a pointer past the 64 bytes of the upstream struct, so
// the longer extended struct is passed.
func (v *verbs) createQP(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error) {
	return v.ptr("ibv_create_qp", pd, uintptr(unsafe.Pointer(attr)))
}

// int ibv_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int attr_mask);
func (v *verbs) modifyQP(qp uintptr, attr *abi.QPAttr, mask QPAttrMask) error {
	return v.err("ibv_modify_qp", qp, uintptr(unsafe.Pointer(attr)), uintptr(mask))
}

// int ibv_query_qp(struct ibv_qp *, struct ibv_qp_attr *, int attr_mask, struct ibv_qp_init_attr *);
func (v *verbs) queryQP(qp uintptr, attr *abi.QPAttr, mask QPAttrMask, init *abi.QPInitAttrEx) error {
	return v.err("ibv_query_qp", qp, uintptr(unsafe.Pointer(attr)), uintptr(mask), uintptr(unsafe.Pointer(init)))
}

// int ibv_destroy_qp(struct ibv_qp *qp);
func (v *verbs) destroyQP(qp uintptr) error { return v.destroy("ibv_destroy_qp", qp) }

// struct ibv_srq *ibv_create_srq(struct ibv_pd *, struct ibv_srq_init_attr *);
func (v *verbs) createSRQ(pd uintptr, attr *abi.SRQInitAttr) (uintptr, error) {
	return v.ptr("ibv_create_srq", pd, uintptr(unsafe.Pointer(attr)))
}

// int ibv_modify_srq(struct ibv_srq *, struct ibv_srq_attr *, int attr_mask);
func (v *verbs) modifySRQ(srq uintptr, attr *abi.SRQAttr, mask uint32) error {
	return v.err("ibv_modify_srq", srq, uintptr(unsafe.Pointer(attr)), uintptr(mask))
}

// int ibv_query_srq(struct ibv_srq *, struct ibv_srq_attr *);
func (v *verbs) querySRQ(srq uintptr, attr *abi.SRQAttr) error {
	return v.err("ibv_query_srq", srq, uintptr(unsafe.Pointer(attr)))
}

// int ibv_destroy_srq(struct ibv_srq *srq);
func (v *verbs) destroySRQ(srq uintptr) error { return v.destroy("ibv_destroy_srq", srq) }

// struct ibv_ah *ibv_create_ah(struct ibv_pd *, struct ibv_ah_attr *);
func (v *verbs) createAH(pd uintptr, attr *abi.AHAttr) (uintptr, error) {
	return v.ptr("ibv_create_ah", pd, uintptr(unsafe.Pointer(attr)))
}

// int ibv_destroy_ah(struct ibv_ah *ah);
func (v *verbs) destroyAH(ah uintptr) error { return v.destroy("ibv_destroy_ah", ah) }

// int ibv_attach_mcast(struct ibv_qp *, const union ibv_gid *gid, uint16_t lid);
func (v *verbs) attachMcast(qp uintptr, gid *GID, lid uint16) error {
	return v.err("ibv_attach_mcast", qp, uintptr(unsafe.Pointer(gid)), uintptr(lid))
}

// int ibv_detach_mcast(struct ibv_qp *, const union ibv_gid *gid, uint16_t lid);
func (v *verbs) detachMcast(qp uintptr, gid *GID, lid uint16) error {
	return v.err("ibv_detach_mcast", qp, uintptr(unsafe.Pointer(gid)), uintptr(lid))
}

// at views C memory at p as a T. The memory is never Go's, so the detour that
// hides the conversion from vet is sound.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// sliceAddr is the address of the first byte of a pinned or foreign slice.
func sliceAddr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// be64 turns the memory order of a __be64 in a register into a number.
func be64(v uint64) uint64 {
	b := (*[8]byte)(unsafe.Pointer(&v))
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
