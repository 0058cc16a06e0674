package librdmacm

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// int rdma_create_id(struct rdma_event_channel *, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);
func (l Lib) CreateID(ch uintptr, ps uint32) (uintptr, error) {
	out := new(uintptr)
	err := l.write(ch, "rdma_create_id", ch, uintptr(unsafe.Pointer(out)), 0, uintptr(ps))
	return *out, err
}

// int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);
// The ID's present file may be one that refuses the thread.
func (l Lib) MigrateID(id, ch uintptr) error { return l.write(ch, "rdma_migrate_id", id, ch) }

// SetChannel does what rdma_migrate_id does in C, for an ID that the kernel has moved already.
func (l Lib) SetChannel(id, ch uintptr) { cmem.At[abi.RDMACMID](id).Channel = ch }

// int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
func (l Lib) Connect(id uintptr, p abi.RDMAConnParam, data []byte) error {
	return l.withParam("rdma_connect", id, p, data)
}

// int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param);
// If the library is Old, no event of the ID may be read meanwhile.
func (l Lib) Accept(id uintptr, p abi.RDMAConnParam, data []byte) error {
	if !l.State(id).HasQP && l.Old() {
		// Before v21 it brings up the QP of the ID or fails, unless that is one for datagrams.
		typ := &cmem.At[abi.RDMACMID](id).QPType
		defer func(is uint32) { *typ = is }(*typ)
		*typ = abi.IBV_QPT_UD
	}
	return l.withParam("rdma_accept", id, p, data)
}

// withParam calls a function with connection parameters and private data, which is at most 255 bytes.
func (l Lib) withParam(name string, id uintptr, p abi.RDMAConnParam, data []byte) error {
	param, buf := &p, new([256]byte)
	if n := copy(buf[:], data); n > 0 {
		param.PrivateDataLen = uint8(n)
		param.PrivateData = cmem.Heap(unsafe.Pointer(buf))
	}
	err := l.write(channelOf(id), name, id, uintptr(unsafe.Pointer(param)))
	runtime.KeepAlive(buf)
	return err
}

// int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
func (l Lib) Reject(id uintptr, data []byte) error { return l.withData("rdma_reject", id, data) }

// int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len); absent before v31.
func (l Lib) RejectECE(id uintptr, data []byte) error { return l.withData("rdma_reject_ece", id, data) }

func (l Lib) withData(name string, id uintptr, data []byte) error {
	buf := new([256]byte)
	n := copy(buf[:], data)
	return l.write(channelOf(id), name, id, uintptr(unsafe.Pointer(buf)), uintptr(n))
}

// int rdma_establish(struct rdma_cm_id *id); absent before v23.
func (l Lib) Establish(id uintptr) error {
	if l.Old() {
		known := false
		err := on(channelOf(id), func() (err error) { known, err = establish(id); return err })
		if known || err != nil {
			return err
		}
	}
	return l.write(channelOf(id), "rdma_establish", id)
}

// int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
// int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
// It returns the struct ibv_qp.
func (l Lib) CreateQP(id, pd uintptr, attr *abi.QPInitAttrEx) (_ uintptr, err error) {
	if attr.CompMask == 0 {
		err = l.write(channelOf(id), "rdma_create_qp", id, pd, uintptr(unsafe.Pointer(attr)))
	} else {
		attr.CompMask, attr.PD = attr.CompMask|abi.IBV_QP_INIT_ATTR_PD, pd
		err = l.write(channelOf(id), "rdma_create_qp_ex", id, uintptr(unsafe.Pointer(attr)))
	}
	if err != nil {
		return 0, err
	}
	return cmem.At[abi.RDMACMID](id).QP, nil
}

// ForgetQP does what rdma_destroy_qp does after ibv_destroy_qp, for an ID whose CQs are not librdmacm's.
func (l Lib) ForgetQP(id uintptr) { cmem.At[abi.RDMACMID](id).QP = 0 }

// int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask); absent before v23.
func (l Lib) InitQPAttr(id uintptr, attr *abi.QPAttr) (mask uint32, err error) {
	if l.Old() {
		known := false
		err = on(channelOf(id), func() (err error) { mask, known, err = initQPAttr(id, attr); return err })
		if known || err != nil {
			return mask, err
		}
	}
	out := new(uint32)
	err = l.write(channelOf(id), "rdma_init_qp_attr", id, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(out)))
	return *out, err
}

// Old reports whether the library is from before v23, which had no functions for QPs that it did not create.
func (l Lib) Old() bool { return !l.lib.Has("rdma_init_qp_attr") || !l.lib.Has("rdma_establish") }

// int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
// int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context);
// The second one is absent before v16, and only used for other members than full ones.
func (l Lib) JoinMulticast(id uintptr, a *sockaddr.Addr, flags uint32, cookie uintptr) error {
	if flags == abi.RDMA_MC_JOIN_FLAG_FULLMEMBER {
		return l.write(channelOf(id), "rdma_join_multicast", id, uintptr(unsafe.Pointer(a)), cookie)
	}
	attr := &abi.RDMAJoinMCAttrEx{
		CompMask:  abi.RDMA_CM_JOIN_MC_ATTR_ADDRESS | abi.RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		JoinFlags: flags,
		Addr:      cmem.Heap(unsafe.Pointer(a)),
	}
	err := l.write(channelOf(id), "rdma_join_multicast_ex", id, uintptr(unsafe.Pointer(attr)), cookie)
	runtime.KeepAlive(a)
	return err
}

// int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);
// If its write fails, librdmacm frees what the kernel still has the address of. So the kernel is asked first.
func (l Lib) LeaveMulticast(id uintptr, a *sockaddr.Addr) error {
	ch := channelOf(id)
	return on(ch, func() error {
		if uverbs.Refused(fdOf(ch)) {
			return syscall.EACCES
		}
		return l.lib.Minus1("rdma_leave_multicast", id, uintptr(unsafe.Pointer(a)))
	})
}

// struct ibv_context **rdma_get_devices(int *num_devices);
func (l Lib) GetDevices() (list uintptr, handles []uintptr, err error) {
	n := new(int32)
	list, err = l.lib.Ptr("rdma_get_devices", uintptr(unsafe.Pointer(n)))
	if err != nil {
		return 0, nil, err
	}
	return list, cmem.Clone[uintptr](list, int(*n)), nil
}

// State reads the public fields of a struct rdma_cm_id.
func (l Lib) State(id uintptr) control.CMState {
	c := cmem.At[abi.RDMACMID](id)
	a := &c.Route.Addr
	s := control.CMState{Verbs: c.Verbs, Port: c.PortNum, PKey: a.Addr.PKey.Get(), SGID: a.Addr.SGID,
		DGID: a.Addr.DGID, Src: a.SrcStorage, Dst: a.DstStorage, HasQP: c.QP != 0}
	if c.Verbs != 0 {
		s.Transport = int32(cmem.At[abi.Device](cmem.At[abi.Context](c.Verbs).Device).TransportType)
	}
	return s
}

// Paths returns a copy of the path records.
func (l Lib) Paths(id uintptr) []abi.SAPathRec {
	r := &cmem.At[abi.RDMACMID](id).Route
	return cmem.Clone[abi.SAPathRec](r.PathRec, int(r.NumPaths))
}
