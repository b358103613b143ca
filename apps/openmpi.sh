# How an application starts its processes with Open MPI: `ranks NUMBER PROGRAM ARGUMENT…`.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
# It looks for ssh even if all processes are on this machine.
export OMPI_MCA_plm_rsh_agent=sh PRTE_MCA_plm_ssh_agent=sh
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Without these options Open MPI refuses more processes than cores, or binds each to a core.
ranks() {
    number=$1
    shift
    mpirun.openmpi --oversubscribe --bind-to none -np "$number" "$@"
}
