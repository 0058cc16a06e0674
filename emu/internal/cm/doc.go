// Package cm is the kernel's rdma_cm as librdmacm drives it through /dev/infiniband/rdma_cm: addresses and routes of
// the emulated fabric, and connections between the programs on it. A connection's messages (REQ, REP, RTU, REJ, DREQ,
// DREP and their SIDR kin) are calls from one id to its peer, in memory.
//
// The queue pairs belong to user space: librdmacm takes their attributes from INIT_QP_ATTR and modifies them through
// uverbs, so nothing here touches one.
package cm
