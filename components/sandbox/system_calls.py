"""The system calls that a program in a box may make, by name, with their numbers on both processors.

CPython 3.11 to 3.13 needs them with its standard library, and the C library below it.
"""

_FILES = """
read:0:63 write:1:64 open:2:-1 openat:257:56 close:3:57 lseek:8:62 pread64:17:67 pwrite64:18:68 readv:19:65
writev:20:66 preadv:295:69 pwritev:296:70 stat:4:-1 fstat:5:80 lstat:6:-1
newfstatat:262:79 statx:332:291 access:21:-1 faccessat:269:48 faccessat2:439:439 getdents:78:-1 getdents64:217:61
getcwd:79:17 chdir:80:49 fchdir:81:50 rename:82:-1 renameat:264:38 renameat2:316:276 mkdir:83:-1 mkdirat:258:34
rmdir:84:-1 creat:85:-1 link:86:-1 linkat:265:37 unlink:87:-1 unlinkat:263:35 symlink:88:-1 symlinkat:266:36
readlink:89:-1 readlinkat:267:78 chmod:90:-1 fchmod:91:52 fchmodat:268:53 chown:92:-1 fchown:93:55 lchown:94:-1
fchownat:260:54 umask:95:166 truncate:76:45 ftruncate:77:46 fallocate:285:47 utime:132:-1
utimes:235:-1 futimesat:261:-1 utimensat:280:88 mknod:133:-1 mknodat:259:33 statfs:137:43 fstatfs:138:44 fsync:74:82
fdatasync:75:83 getxattr:191:8 lgetxattr:192:9 fgetxattr:193:10 listxattr:194:11 llistxattr:195:12 flistxattr:196:13
sendfile:40:71 copy_file_range:326:285 splice:275:76 tee:276:77
"""
"""On files and folders. Not allowed: locks of handles, watches, setting extended attributes, asynchronous I/O, flushing the
disks of the whole machine, and querying or dropping the cached pages of files."""
_HANDLES = """
dup:32:23 dup2:33:-1 dup3:292:24 pipe:22:-1 pipe2:293:59 close_range:436:436 poll:7:-1 ppoll:271:73 select:23:-1
pselect6:270:72 epoll_create:213:-1 epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:-1 epoll_pwait:281:22
epoll_pwait2:441:441 eventfd:284:-1 eventfd2:290:19 timerfd_create:283:85 timerfd_settime:286:86
timerfd_gettime:287:87 signalfd:282:-1 signalfd4:289:74
"""
"""On handles, including waiting for them."""
_MEMORY = """
mmap:9:222 munmap:11:215 mprotect:10:226 mremap:25:216 brk:12:214 msync:26:227
rseq:334:293
"""
"""On its own memory, without locking pages, querying which pages of files are cached, or barriers across processors."""
_PROCESSES = """
fork:57:-1 vfork:58:-1 execve:59:221 exit:60:93 exit_group:231:94 wait4:61:260 waitid:247:95 getpid:39:172
getppid:110:173 gettid:186:178 getpgid:121:155 getpgrp:111:-1 setpgid:109:154 setsid:112:157 getsid:124:156
kill:62:129 tkill:200:130 tgkill:234:131 rt_sigprocmask:14:135 rt_sigpending:127:136 rt_sigtimedwait:128:137
rt_sigqueueinfo:129:138 rt_sigsuspend:130:133 rt_sigreturn:15:139 sigaltstack:131:132 pause:34:-1 alarm:37:-1
getitimer:36:102 setitimer:38:103 pidfd_open:434:434 pidfd_send_signal:424:424 getrlimit:97:163
getrusage:98:165 times:100:153 getpriority:140:141 sched_yield:24:124 sched_getaffinity:204:123
sched_getparam:143:121 sched_getscheduler:145:120 sched_get_priority_max:146:125 sched_get_priority_min:147:126
sched_rr_get_interval:148:127 getcpu:309:168 set_tid_address:218:96 set_robust_list:273:99
restart_syscall:219:128 getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177 getresuid:118:148
getresgid:120:150 getgroups:115:158
"""
"""On processes, threads, signals, limits and identities (read-only)."""
_TIME = """
uname:63:160 sysinfo:99:179 getrandom:318:278 gettimeofday:96:169 time:201:-1 clock_gettime:228:113
clock_getres:229:114 clock_nanosleep:230:115 nanosleep:35:101
"""
"""On time and the machine."""
_SOCKETS = """
bind:49:200 connect:42:203 listen:50:201 accept:43:202 accept4:288:242 getsockname:51:204 getpeername:52:205
sendto:44:206 recvfrom:45:207 sendmsg:46:211 recvmsg:47:212 sendmmsg:307:269 recvmmsg:299:243 shutdown:48:210
getsockopt:55:209
"""
"""On sockets, which are local only."""
_JUDGED = """
clone:56:220 socket:41:198 socketpair:53:199 prlimit64:302:261 madvise:28:233 prctl:157:167 fcntl:72:25 ioctl:16:29
setsockopt:54:208 arch_prctl:158:-1 rt_sigaction:13:134 futex:202:98 setrlimit:160:164
"""
"""Allowed with some arguments: see `seccomp.py`."""
_AGENTS = """
flock:73:32 inotify_init:253:-1 inotify_init1:294:26 inotify_add_watch:254:27 inotify_rm_watch:255:28
fadvise64:221:223 readahead:187:213 sync_file_range:277:84 setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7
removexattr:197:14 memfd_create:319:279 membarrier:324:283 mincore:27:232 mlock:149:228 munlock:150:229
timer_create:222:107 timer_settime:223:110 timer_gettime:224:108 timer_getoverrun:225:109 timer_delete:226:111
sched_setaffinity:203:122 setpriority:141:140 ioprio_get:252:31 capget:125:90 execveat:322:281 openat2:437:437
fchmodat2:452:452
"""
"""What agents need beside: shells, Node.js, Git and compilers."""


def numbers(*tables: str) -> dict[str, tuple[int, int]]:
    """Tables of `name:number on x86_64:number on aarch64` as a mapping."""
    entries = (entry.split(":") for table in tables for entry in table.split())
    return {name: (int(x86_64), int(aarch64)) for name, x86_64, aarch64 in entries}


ALLOWED = numbers(_FILES, _HANDLES, _MEMORY, _PROCESSES, _TIME, _SOCKETS)
"""By name, the numbers on x86_64 and on aarch64; -1 if there is none."""
ALLOWED_TO_AGENTS = numbers(_AGENTS)
"""The same for agents, in boxes of their own."""
JUDGED = numbers(_JUDGED)
"""The same for calls that are allowed with some arguments."""
