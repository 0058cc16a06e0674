package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
func (l Lib) QueryQPDataInOrder(qp uintptr, op, flags uint32) (uint32, error) {
	n, err := l.lib.Int("ibv_query_qp_data_in_order", qp, uintptr(op), uintptr(flags))
	return uint32(n), err
}

// int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t eth_mac[6],
// uint16_t *vid);
// It returns -1 and sets errno, or an errno negated.
func (l Lib) ResolveEthL2FromGID(ctx uintptr, attr *abi.AHAttr) (mac [6]byte, vid uint16, err error) {
	out := new(struct {
		mac [6]byte
		vid uint16
	})
	n, err := l.lib.Minus1Int("ibv_resolve_eth_l2_from_gid", ctx, uintptr(unsafe.Pointer(attr)),
		uintptr(unsafe.Pointer(&out.mac)), uintptr(unsafe.Pointer(&out.vid)))
	if n < -1 {
		err = abi.Errno(-n)
	}
	return out.mac, out.vid, err
}

// enum ibv_fork_status ibv_is_fork_initialized(void);
func (l Lib) IsForkInitialized() (uint32, error) {
	n, err := l.lib.Int("ibv_is_fork_initialized")
	return uint32(n), err
}
