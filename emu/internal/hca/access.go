//go:build linux

package hca

// Access is the set of rights of a memory key, as in IB_ACCESS_*.
type Access uint32

// Rights.
const (
	AccessLocalWrite   Access = 1 << 0
	AccessRemoteWrite  Access = 1 << 1
	AccessRemoteRead   Access = 1 << 2
	AccessRemoteAtomic Access = 1 << 3
	AccessMWBind       Access = 1 << 4
	AccessZeroBased    Access = 1 << 5
	AccessOnDemand     Access = 1 << 6
	AccessHugeTLB      Access = 1 << 7
	AccessRelaxed      Access = 1 << 20
)

// writable reports whether memory that is registered so must be writable. C: ib_access_writable.
func (a Access) writable() bool {
	return a&(AccessLocalWrite|AccessRemoteWrite|AccessRemoteAtomic|AccessMWBind) != 0
}

// whole reports whether this is the registration of a whole address space.
func whole(addr, length uint64, access Access) bool {
	return access&AccessOnDemand != 0 && addr == 0 && length == ^uint64(0)
}
