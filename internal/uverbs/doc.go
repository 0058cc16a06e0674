// Package uverbs gives the kernel commands for which a provider cannot be asked, because they concern what the direct
// data path has taken over from it. A command is written to the context's descriptor, in the format of
// rdma/ib_user_verbs.h, which every kernel understands.
package uverbs
