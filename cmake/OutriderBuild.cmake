# SPDX-License-Identifier: MIT
# How every part of the house is built.

# Flags that hold for all targets.
macro(outrider_flags)
    set(CMAKE_C_STANDARD 17)
    set(CMAKE_C_STANDARD_REQUIRED ON)
    set(CMAKE_C_EXTENSIONS ON)
    set(CMAKE_C_VISIBILITY_PRESET hidden)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
    add_compile_options(-Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes
        -Wmissing-prototypes -Wwrite-strings -Wundef -Wvla -Wformat=2 -fno-common)
    add_compile_definitions(_GNU_SOURCE)
    if(OUTRIDER_SANITIZE)
        add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
        add_link_options(-fsanitize=address,undefined)
    endif()
    if(OUTRIDER_TSAN)
        add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
        add_link_options(-fsanitize=thread)
    endif()
    if(OUTRIDER_FUZZ)
        add_compile_options(-fsanitize=fuzzer-no-link)
    endif()
    if(OUTRIDER_COVERAGE)
        add_compile_options(--coverage)
        add_link_options(--coverage)
    endif()
    if(OUTRIDER_FAILPOINTS)
        add_compile_definitions(OUTRIDER_FAILPOINTS)
    endif()
endmacro()

# A room of the house: headers are included as "room/file.h", which only builds
# for those that link the room, so that an arrow drawn the wrong way is an error.
# The room is this directory, or the one that is given.
function(outrider_room target room)
    set(root "${CMAKE_BINARY_DIR}/rooms/${target}")
    set(directory "${CMAKE_CURRENT_SOURCE_DIR}")
    if(ARGC GREATER 2)
        get_filename_component(directory "${ARGV2}" ABSOLUTE)
    endif()
    file(MAKE_DIRECTORY "${root}")
    file(CREATE_LINK "${directory}" "${root}/${room}" SYMBOLIC)
    # The rows of adapters are linked by core, which must not see the adapters' headers.
    if(target STREQUAL outrider_adapters)
        target_include_directories(${target} PRIVATE "${root}")
    else()
        target_include_directories(${target} PUBLIC "${root}")
    endif()
endfunction()

# A module: an adapter that is loaded when a URL asks for it.
function(outrider_module name)
    cmake_parse_arguments(M "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_library(outrider_module_${name} MODULE ${M_SOURCES})
    target_link_libraries(outrider_module_${name} PRIVATE ${M_LIBRARIES})
    target_link_options(outrider_module_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,--gc-sections)
    if(OUTRIDER_SANITIZE OR OUTRIDER_TSAN OR OUTRIDER_FUZZ)
        # Sanitizer runtimes live in the program, not in the module.
        target_link_options(outrider_module_${name} PRIVATE -Wl,-z,undefs)
    endif()
    set_target_properties(outrider_module_${name} PROPERTIES
        PREFIX "" OUTPUT_NAME "${name}"
        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/modules")
    install(TARGETS outrider_module_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/outrider)
endfunction()

# SQL lives in .sql files; <name>.sql.h has a C string for each block "-- name: x" of
# <name>.sql (sql_x), or one for a file without blocks (sql_<name>).
function(outrider_embed_sql target)
    foreach(file ${ARGN})
        get_filename_component(name "${file}" NAME_WE)
        set(out "${CMAKE_CURRENT_BINARY_DIR}/sql/${name}.sql.h")
        add_custom_command(OUTPUT "${out}"
            COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${out} -DNAME=sql_${name}
                -P ${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake
            DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${file}" "${CMAKE_SOURCE_DIR}/cmake/EmbedText.cmake")
        target_sources(${target} PRIVATE "${out}")
    endforeach()
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/sql")
endfunction()

# What applications link: parts of the house in one library, shared and static,
# with its pkg-config file and its part of the CMake package. IMPORTED is what
# its headers need, PRIVATE what a program needs that links the static one.
function(outrider_library name)
    cmake_parse_arguments(LIBRARY "" "COMPONENT;DESCRIPTION" "PARTS;IMPORTED;REQUIRES;PRIVATE;REQUIRES_PRIVATE;LIBS_PRIVATE"
        ${ARGN})
    set(LIBRARY_NAME ${name})
    set(objects ${LIBRARY_PARTS})
    list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
    foreach(kind SHARED STATIC)
        string(TOLOWER "outrider_library_${LIBRARY_COMPONENT}_${kind}" target)
        set(exported ${LIBRARY_COMPONENT})
        if(kind STREQUAL STATIC)
            set(exported ${LIBRARY_COMPONENT}_static)
        endif()
        add_library(${target} ${kind} ${objects})
        set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C
            VERSION ${PROJECT_VERSION} SOVERSION 0
            EXPORT_NAME ${exported})
        target_link_libraries(${target} PUBLIC ${LIBRARY_IMPORTED} PRIVATE ${LIBRARY_PRIVATE} Threads::Threads)
        target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        install(TARGETS ${target} EXPORT outrider-${LIBRARY_COMPONENT}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endforeach()
    target_link_options(outrider_library_${LIBRARY_COMPONENT}_shared PRIVATE
        "-Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/outrider.map")
    set_target_properties(outrider_library_${LIBRARY_COMPONENT}_shared PROPERTIES
        LINK_DEPENDS "${CMAKE_SOURCE_DIR}/cmake/outrider.map")
    foreach(list REQUIRES REQUIRES_PRIVATE LIBS_PRIVATE)
        list(JOIN LIBRARY_${list} " " LIBRARY_${list})
    endforeach()
    # Where PREFIX and DESTDIR put it is known at the installation only.
    file(RELATIVE_PATH LIBRARY_UP "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" LIBRARY_UP "${LIBRARY_UP}")
    configure_file("${CMAKE_SOURCE_DIR}/cmake/library.pc.in" ${name}.pc @ONLY)
    configure_file("${CMAKE_SOURCE_DIR}/cmake/library-static.pc.in" ${name}-static.pc @ONLY)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" "${CMAKE_CURRENT_BINARY_DIR}/${name}-static.pc"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(EXPORT outrider-${LIBRARY_COMPONENT} FILE outrider-${LIBRARY_COMPONENT}-targets.cmake
        NAMESPACE outrider:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outrider)
endfunction()

# The library of one database, for an application that enqueues and consumes.
function(outrider_client_library name)
    cmake_parse_arguments(CLIENT "" "TITLE;PART;IMPORTED;REQUIRES" "" ${ARGN})
    # What the CMake package of an installed Outrider looks for: the target's name, and the library.
    string(REPLACE "PkgConfig::" "" prefix "${CLIENT_IMPORTED}")
    set_property(GLOBAL APPEND PROPERTY OUTRIDER_LIBRARY_MODULES "${prefix} ${CLIENT_REQUIRES}")
    set_property(GLOBAL APPEND_STRING PROPERTY OUTRIDER_COMPONENT_MODULES
        "set(outrider_modules_${name} ${prefix} ${CLIENT_REQUIRES})\n")
    outrider_library(outrider-${name} COMPONENT ${name}
        DESCRIPTION "events in an application's own ${CLIENT_TITLE} transaction"
        PARTS ${CLIENT_PART} outrider_base IMPORTED ${CLIENT_IMPORTED} REQUIRES ${CLIENT_REQUIRES})
endfunction()
